#include "model/inference/network_packer.h"

#include "kernels/error.h"
#include "model/attention/fused_mixing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using at::Tensor;
using kernels::AlignedBuffer;

/// y = x weight^T + bias, in float64 while things are folded into it.
struct Affine {
  Tensor weight;  ///< (out, in)
  Tensor bias;    ///< (out)
};

/// The parameters of a module by name; handed out in float64, dropped after.
class Parameters {
 public:
  Parameters(const torch::nn::Module& module, bool release)
      : parameters_(module.named_parameters()), release_(release) {}

  [[nodiscard]] bool has(const std::string& name) const { return parameters_.contains(name); }
  [[nodiscard]] Tensor get(const std::string& name) const {
    return parameters_[name].detach().to(at::kDouble);
  }
  /// The last use of a large one.
  [[nodiscard]] Tensor take(const std::string& name) {
    Tensor value = get(name);
    if (release_) parameters_[name].set_data(at::empty({0}, parameters_[name].options()));
    return value;
  }
  [[nodiscard]] Affine take_linear(const std::string& name) {
    Affine linear{take(name + ".weight"), {}};
    linear.bias =
        has(name + ".bias") ? get(name + ".bias") : at::zeros({linear.weight.size(0)}, at::kDouble);
    return linear;
  }

 private:
  torch::OrderedDict<std::string, Tensor> parameters_;
  bool release_;
};

AlignedBuffer<float> to_buffer(const Tensor& values) {
  const Tensor flat = values.to(at::kFloat).contiguous();
  AlignedBuffer<float> buffer(static_cast<std::size_t>(flat.numel()));
  std::copy_n(flat.const_data_ptr<float>(), flat.numel(), buffer.data());
  return buffer;
}

PackedLinear pack(kernels::Storage storage, const Affine& linear) {
  const Tensor weight = linear.weight.to(at::kFloat).contiguous();
  PackedLinear packed;
  packed.weight = kernels::linear::PackedWeight(storage, weight.const_data_ptr<float>(),
                                                weight.size(0), weight.size(1), weight.size(1));
  packed.bias = to_buffer(linear.bias);
  return packed;
}

/// What the input's channels are multiplied by before they are quantised, and the weight's columns
/// divided by: sqrt(max |W_k| / max |x_k|), which gives both the same range (Xiao et al. 2022,
/// arXiv 2211.10438, equation 4 with alpha 0.5). Undefined without ranges.
Tensor channel_multiplier(const Tensor& weight, const std::vector<float>& range) {
  if (range.empty()) return {};
  const Tensor inputs = at::tensor(range, at::kDouble);
  const Tensor weights = std::get<0>(weight.abs().max(0));
  return at::where(inputs.gt(0).logical_and(weights.gt(0)), (weights / inputs).sqrt(),
                   at::ones_like(inputs));
}

PackedLinear pack_int8(const Affine& linear, const Tensor& multiplier) {
  const Tensor weight = (multiplier.defined() ? linear.weight / multiplier : linear.weight)
                            .to(at::kFloat)
                            .contiguous();
  PackedLinear packed;
  packed.quantised = kernels::quantised_linear::QuantisedWeight(
      weight.const_data_ptr<float>(), weight.size(0), weight.size(1), weight.size(1));
  packed.bias = to_buffer(linear.bias);
  if (multiplier.defined()) packed.multiplier = to_buffer(multiplier);
  return packed;
}

/// linear(norm(x)) with the norm's weight and bias taken in.
Affine behind_norm(const Affine& linear, const Tensor& norm_weight, const Tensor& norm_bias) {
  return {linear.weight * norm_weight, linear.bias + linear.weight.mv(norm_bias)};
}

/// scale * linear(x), by output feature.
Affine scaled(const Affine& linear, const Tensor& scale) {
  return {linear.weight * scale.unsqueeze(1), linear.bias * scale};
}

Affine rows(const Affine& linear, std::int64_t first, std::int64_t count) {
  return {linear.weight.narrow(0, first, count), linear.bias.narrow(0, first, count)};
}

/// scale * network(linear(x)) of every head.
Affine through(const HeadNetwork& network, const Affine& linear, std::int64_t num_heads) {
  if (!network.weight.defined())
    return {linear.weight * network.scale, linear.bias * network.scale};
  Tensor weight = network.weight.detach().to(at::kDouble);  // (H, d, w)
  if (weight.dim() == 2) weight = weight.unsqueeze(0).expand({num_heads, -1, -1});
  const Tensor transposed = weight.transpose(1, 2);  // (H, w, d)
  const Tensor heads = linear.weight.view({num_heads, weight.size(1), -1});
  Tensor bias = transposed.matmul(linear.bias.view({num_heads, -1, 1})).squeeze(-1);
  if (network.bias.defined()) bias = bias + network.bias.detach().to(at::kDouble);
  return {transposed.matmul(heads).flatten(0, 1) * network.scale, bias.flatten() * network.scale};
}

Affine stacked(const Affine& a, const Affine& b) {
  return {at::cat({a.weight, b.weight}), at::cat({a.bias, b.bias})};
}

/// LibTorch on one thread while it lives, where `elements` are few: OpenMP's threads go on spinning
/// for milliseconds after their work, on the processors that the plan's own threads need next.
class FewElementsOnOneThread {
 public:
  explicit FewElementsOnOneThread(std::int64_t elements)
      : threads_(elements < kMany ? at::get_num_threads() : 0) {
    if (threads_ > 1) at::set_num_threads(1);
  }
  FewElementsOnOneThread(const FewElementsOnOneThread&) = delete;
  FewElementsOnOneThread& operator=(const FewElementsOnOneThread&) = delete;
  ~FewElementsOnOneThread() {
    if (threads_ > 1) at::set_num_threads(threads_);
  }

 private:
  static constexpr std::int64_t kMany = 1 << 20;
  int threads_;
};

/// The mixer as a step of the plan.
ModuleLayer module_layer(TokenMixer& mixer, kernels::Storage storage, Kernels kernels,
                         const VitConfig& config) {
  const auto dtype = storage == kernels::Storage::float32 ? at::kFloat : at::kBFloat16;
  const std::int64_t dim = config.embed_dim;
  const std::int64_t num_heads = config.num_heads;
  const std::int64_t num_prefix = config.num_prefix_tokens();
  return {[&mixer, kernels, dtype, dim, num_heads, num_prefix](
              std::int64_t count, std::int64_t grid_rows, std::int64_t grid_columns, void* queries,
              std::int64_t query_stride, void* keys_values, void* mixed) {
    const TokenGrid grid{num_prefix, grid_rows, grid_columns};
    const std::int64_t n = grid.num_tokens();
    const FewElementsOnOneThread guard(count * n * dim);
    const Tensor q =
        at::from_blob(queries, {count, n, dim}, {n * query_stride, query_stride, 1}, dtype);
    const Tensor kv = at::from_blob(keys_values, {count, n, 2 * dim}, dtype);
    at::from_blob(mixed, {count, n, dim}, dtype)
        .copy_(mixer.mix(split_heads(q, num_heads), split_heads(kv.narrow(2, 0, dim), num_heads),
                         split_heads(kv.narrow(2, dim, dim), num_heads), grid, kernels));
  }};
}

PackedBlock pack_block(VisionTransformerImpl& model, std::int64_t layer, const Packing& packing) {
  const VitConfig& config = model.config();
  BlockImpl& module = model.block(layer);
  Parameters parameters(module, packing.release);
  const BlockRanges ranges = packing.ranges != nullptr
                                 ? packing.ranges->at(static_cast<std::size_t>(layer))
                                 : BlockRanges{};
  const std::int64_t dim = config.embed_dim;
  const std::int64_t heads = config.num_heads;
  const Tensor norm1_weight = parameters.get("norm1.weight");
  const Tensor norm1_bias = parameters.get("norm1.bias");
  const Affine qkv = parameters.take_linear("attn.qkv");
  Affine query = rows(qkv, 0, dim);
  if (module.attention().query_is_input())
    query = {at::eye(dim, at::kDouble), at::zeros({dim}, at::kDouble)};
  Affine key = rows(qkv, dim, dim);
  PackedBlock block;
  const FusedMixing fused = module.attention().mixer().fused();
  if (std::holds_alternative<FusedSoftmax>(fused)) {
    const double scale = 1 / std::sqrt(static_cast<double>(config.head_dim()));
    query = {query.weight * scale, query.bias * scale};
    block.mixing = SoftmaxLayer{};
  } else if (const auto* hydra = std::get_if<FusedHydra>(&fused)) {
    HydraLayer mixing{hydra->kernel, {}};
    if (hydra->feature_scale.defined())
      mixing.feature_scale = to_buffer(hydra->feature_scale.detach());
    block.mixing = std::move(mixing);
  } else if (const auto* linear = std::get_if<FusedLinear>(&fused)) {
    query = through(linear->map.query, query, heads);
    key = through(linear->map.key, key, heads);
    block.mixing =
        LinearLayer{{heads, query.weight.size(0) / heads, config.head_dim(), linear->map.feature,
                     linear->normaliser, static_cast<float>(linear->eps),
                     static_cast<float>(linear->map.unit_eps)}};
  } else {
    block.mixing =
        module_layer(module.attention().mixer(), packing.storage, packing.kernels, config);
  }
  const auto packed = [&](const Affine& linear, const Tensor& multiplier) {
    return packing.int8 ? pack_int8(linear, multiplier) : pack(packing.storage, linear);
  };
  query = behind_norm(query, norm1_weight, norm1_bias);
  key = behind_norm(stacked(key, rows(qkv, 2 * dim, dim)), norm1_weight, norm1_bias);
  // Both read the same rows, quantised once.
  const Tensor multiplier =
      ranges.qkv.empty() ? Tensor() : channel_multiplier(stacked(query, key).weight, ranges.qkv);
  block.query = packed(query, multiplier);
  block.key_value = packed(key, multiplier);

  const auto residual = [&](const std::string& name, const std::string& scale,
                            const std::vector<float>& range) {
    Affine linear = parameters.take_linear(name);
    if (parameters.has(scale)) linear = scaled(linear, parameters.get(scale));
    return packed(linear, channel_multiplier(linear.weight, range));
  };
  block.proj = residual("attn.proj", "ls1.gamma", ranges.proj);
  const Affine fc1 = behind_norm(parameters.take_linear("mlp.fc1"), parameters.get("norm2.weight"),
                                 parameters.get("norm2.bias"));
  block.fc1 = packed(fc1, channel_multiplier(fc1.weight, ranges.fc1));
  block.fc2 = residual("mlp.fc2", "ls2.gamma", ranges.fc2);
  return block;
}

}  // namespace

PackedNetwork pack_network(VisionTransformerImpl& model, const Packing& packing) {
  const at::NoGradGuard no_grad;  // released parameters stay ordinary tensors
  const VitConfig& config = model.config();
  // Tables of the whole model are read again for every image size: they stay.
  Parameters parameters(model, false);
  PackedNetwork network;
  network.storage = packing.storage;
  network.embed_dim = config.embed_dim;
  network.hidden_dim =
      static_cast<std::int64_t>(static_cast<double>(config.embed_dim) * config.mlp_ratio);
  network.num_heads = config.num_heads;
  network.num_prefix = config.num_prefix_tokens();
  network.patch_size = config.patch_size;
  network.in_chans = config.in_chans;
  network.num_classes = config.num_classes;
  network.layer_norm_eps = static_cast<float>(config.layer_norm_eps);

  const Tensor patch_weight = parameters.get("patch_embed.proj.weight");
  const Tensor patch_bias = parameters.get("patch_embed.proj.bias");
  network.patch_embed = pack(packing.storage, {patch_weight.flatten(1), patch_bias});

  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    if (packing.fill_block) packing.fill_block(layer);
    network.blocks.push_back(pack_block(model, layer, packing));
  }

  const std::string norm = config.fc_norm ? "fc_norm" : "norm";
  network.head.average = config.global_pool == Pooling::avg;
  network.head.norm_after_pool = config.fc_norm;
  network.head.norm_weight = to_buffer(parameters.get(norm + ".weight"));
  network.head.norm_bias = to_buffer(parameters.get(norm + ".bias"));
  network.head.classifier = pack(kernels::Storage::float32, parameters.take_linear("head"));
  if (config.distilled)
    network.head.distilled = pack(kernels::Storage::float32, parameters.take_linear("head_dist"));
  return network;
}

ImageGeometry make_geometry(VisionTransformerImpl& model, std::int64_t grid_rows,
                            std::int64_t grid_columns, PosInterp interpolation) {
  const c10::InferenceMode inference;
  const VitConfig& config = model.config();
  const Parameters parameters(model, false);
  const std::int64_t num_prefix = config.num_prefix_tokens();
  const std::int64_t embedded = config.no_embed_class ? 0 : num_prefix;
  const Tensor position =
      resample_pos_embed(parameters.get("pos_embed").to(at::kFloat), embedded, config.grid_rows(),
                         config.grid_columns(), grid_rows, grid_columns, interpolation)
          .squeeze(0);
  std::vector<Tensor> tokens;
  for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
    if (parameters.has(name)) tokens.push_back(parameters.get(name).squeeze(0));
  }
  ImageGeometry geometry;
  geometry.grid_rows = grid_rows;
  geometry.grid_columns = grid_columns;
  if (!tokens.empty()) {
    Tensor prefix = at::cat(tokens);
    if (embedded > 0) prefix = prefix + position.narrow(0, 0, embedded);
    geometry.prefix = to_buffer(prefix);
  }
  geometry.position = to_buffer(position.narrow(0, embedded, grid_rows * grid_columns));
  const TokenGrid grid{num_prefix, grid_rows, grid_columns};
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    const TokenWeights weights = model.block(layer).attention().mixer().token_weights(grid);
    geometry.token_weights.push_back(
        {static_cast<float>(weights.prefix), static_cast<float>(weights.patch)});
  }
  return geometry;
}

std::vector<std::int64_t> module_layers(const PackedNetwork& network) {
  std::vector<std::int64_t> layers;
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer) {
    if (std::holds_alternative<ModuleLayer>(network.blocks[layer].mixing))
      layers.push_back(static_cast<std::int64_t>(layer));
  }
  return layers;
}

}  // namespace hydrascope::model::inference
