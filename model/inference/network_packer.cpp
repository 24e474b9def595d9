#include "model/inference/network_packer.h"

#include "kernels/error.h"
#include "model/inference/folded_network.h"
#include "model/inference/key_grouping.h"
#include "model/inference/one_torch_thread.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hydrascope::model::inference {
namespace {

using at::Tensor;
using kernels::AlignedBuffer;

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

kernels::Storage storage_of(const InferenceOptions& options) {
  return options.precision.dtype == at::kFloat ? kernels::Storage::float32
                                               : kernels::Storage::bfloat16;
}

/// Of its matrices in float32.
std::int64_t bytes_of_a_block(const VitConfig& config) {
  constexpr double kAttention = 4;  // matrices of D x D
  const double matrices =
      kAttention + static_cast<double>(config.mlp_matrices()) * config.mlp_ratio;
  const auto dim = static_cast<double>(config.embed_dim);
  return static_cast<std::int64_t>(matrices * dim * dim * sizeof(float));
}

/// Folded matrices that were packed: the allocator would keep them resident.
void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

constexpr std::int64_t kManyElements = 1 << 20;  // worth LibTorch's threads

/// The mixer as a step of the plan.
ModuleLayer module_layer(TokenMixer& mixer, kernels::Storage storage, Kernels kernels,
                         const VitConfig& config) {
  const auto dtype = storage == kernels::Storage::float32 ? at::kFloat : at::kBFloat16;
  const std::int64_t dim = config.embed_dim;
  const std::int64_t num_heads = config.num_heads;
  return {[&mixer, kernels, dtype, dim, num_heads](std::int64_t count, const TokenGrid& grid,
                                                   void* queries, std::int64_t query_stride,
                                                   void* keys_values, void* mixed) {
    const std::int64_t n = grid.num_tokens();
    const OneTorchThread few(count * n * dim < kManyElements);
    const Tensor q =
        at::from_blob(queries, {count, n, dim}, {n * query_stride, query_stride, 1}, dtype);
    const Tensor kv = at::from_blob(keys_values, {count, n, 2 * dim}, dtype);
    at::from_blob(mixed, {count, n, dim}, dtype)
        .copy_(mixer.mix(split_heads(q, num_heads), split_heads(kv.narrow(2, 0, dim), num_heads),
                         split_heads(kv.narrow(2, dim, dim), num_heads), grid, kernels));
  }};
}

PackedBlock pack_block(const EngineSource& source, std::int64_t layer, const BlockRanges& ranges,
                       const InferenceOptions& options, SparseKernels kernels) {
  const VitConfig& config = source.model->config();
  const kernels::Storage storage = storage_of(options);
  FoldedBlock folded = fold_block(source, layer, kernels, /*rotations=*/true);
  const auto packed = [&](const Affine& linear, const Tensor& multiplier) {
    return options.precision.int8 ? pack_int8(linear, multiplier) : pack(storage, linear);
  };
  const auto packed_alone = [&](const Affine& linear, const std::vector<float>& range) {
    return packed(linear, channel_multiplier(linear.weight, range));
  };
  PackedBlock block;
  // Both read the same rows, quantised once.
  const Tensor multiplier =
      ranges.qkv.empty()
          ? Tensor()
          : channel_multiplier(at::cat({folded.query.weight, folded.key_value.weight}), ranges.qkv);
  block.query = packed(folded.query, multiplier);
  block.key_value = packed(folded.key_value, multiplier);
  folded.query = folded.key_value = {};
  block.proj = packed_alone(folded.proj(), ranges.proj);
  block.fc1 = packed_alone(folded.fc1(), ranges.fc1);
  block.fc2 = packed_alone(folded.fc2(), ranges.fc2);
  if (std::holds_alternative<FusedSoftmax>(folded.mixing)) {
    block.mixing = SoftmaxLayer{};
  } else if (const auto* hydra = std::get_if<FusedHydra>(&folded.mixing)) {
    HydraLayer mixing{hydra->kernel, {}, {}};
    if (hydra->window) {
      mixing.beside_window = hydra->kernel;
      // With s = 1 / sqrt(d): s q / max(|s q|, s eps) = q / max(|q|, eps), and so the other rules.
      mixing.beside_window->eps /= std::sqrt(static_cast<float>(config.head_dim()));
    }
    if (hydra->feature_scale.defined()) mixing.feature_scale = to_buffer(hydra->feature_scale);
    block.mixing = std::move(mixing);
  } else if (const auto* linear = std::get_if<kernels::linear_attention::Shape>(&folded.mixing)) {
    block.mixing = LinearLayer{*linear};
  } else if (std::holds_alternative<FusedWindow>(folded.mixing)) {
    block.mixing = WindowLayer{};
  } else if (std::holds_alternative<FusedSparse>(folded.mixing)) {
    block.mixing = GroupLayer{};
  } else {
    block.mixing = module_layer(source.model.ptr()->block(layer).attention().mixer(), storage,
                                options.kernels, config);
  }
  block.has_table = source.model.ptr()->block(layer).pos_embed().defined();
  block.turns = source.model.ptr()->block(layer).attention().mixer().position() != nullptr &&
                !std::holds_alternative<ModuleLayer>(block.mixing);
  if (folded.local.defined()) block.local = {folded.local.size(0), to_buffer(folded.local)};
  return block;
}

template <class Chosen>
std::vector<std::int64_t> layers_that(const PackedNetwork& network, Chosen chosen) {
  std::vector<std::int64_t> layers;
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    if (chosen(network.blocks[layer])) layers.push_back(static_cast<std::int64_t>(layer));
  return layers;
}
bool is_module(const PackedBlock& block) {
  return std::holds_alternative<ModuleLayer>(block.mixing);
}

}  // namespace

bool has_large_blocks(const VitConfig& config) {
  constexpr std::int64_t kLarge = std::int64_t{16} << 20;
  return bytes_of_a_block(config) >= kLarge;
}

PackedNetwork pack_network(const EngineSource& source, const InferenceOptions& options,
                           const ChannelRanges* ranges, kernels::device::ThreadTeam& team) {
  const at::NoGradGuard no_grad;
  VisionTransformerImpl& model = *source.model.ptr();
  const VitConfig& config = model.config();
  PackedNetwork network;
  network.storage = storage_of(options);
  network.embed_dim = config.embed_dim;
  network.hidden_dim = config.hidden_dim();
  network.gated_mlp = config.swiglu_mlp;
  network.normed_mlp = config.scale_mlp;
  network.num_heads = config.num_heads;
  network.num_prefix = config.num_prefix_tokens();
  network.patch_size = config.patch_size;
  network.in_chans = config.in_chans;
  network.num_classes = config.num_classes;
  network.layer_norm_eps = static_cast<float>(config.layer_norm_eps);

  network.window = common_window(model);
  const SparseKernels sparse = network.window ? SparseKernels::windows : SparseKernels::groups;

  network.patch_embed = pack(network.storage, fold_patch_embed(model));

  network.blocks.resize(static_cast<std::size_t>(config.depth));
  // Several blocks at a time take several times the memory.
  constexpr std::int64_t kLittle = std::int64_t{32} << 20;
  const bool together = bytes_of_a_block(config) * team.size() <= kLittle;
  const auto pack_layer = [&](std::int64_t layer, int) {
    const at::NoGradGuard of_this_thread;
    const OneTorchThread beside_the_others(together);
    const auto index = static_cast<std::size_t>(layer);
    network.blocks[index] = pack_block(
        source, layer, ranges != nullptr ? ranges->at(index) : BlockRanges{}, options, sparse);
  };
  if (together) {
    team.run(config.depth, pack_layer);
  } else {
    for (std::int64_t layer = 0; layer < config.depth; ++layer) {
      pack_layer(layer, 0);
      if (has_large_blocks(config)) give_back_freed_memory();
    }
  }

  const FoldedHead head = fold_head(model);
  network.head.average = config.global_pool == Pooling::avg;
  network.head.norm_after_pool = config.fc_norm;
  network.head.norm_weight = to_buffer(head.norm_weight);
  network.head.norm_bias = to_buffer(head.norm_bias);
  network.head.classifier = pack(kernels::Storage::float32, head.classifier);
  if (config.distilled) network.head.distilled = pack(kernels::Storage::float32, head.distilled);
  give_back_freed_memory();
  return network;
}

ImageGeometry make_geometry(VisionTransformerImpl& model, const PackedNetwork& network,
                            std::int64_t grid_rows, std::int64_t grid_columns) {
  const std::int64_t dim = network.embed_dim;
  const OneTorchThread few(grid_rows * grid_columns * dim < kManyElements);
  const Embeddings embeddings = make_embeddings(model, grid_rows, grid_columns);
  ImageGeometry geometry;
  geometry.grid = model.config().token_grid(grid_rows, grid_columns);
  if (embeddings.prefix.defined()) geometry.prefix = to_buffer(embeddings.prefix);
  geometry.order =
      token_order(geometry.grid, network.window.value_or(GridExtent{grid_rows, grid_columns}));
  const auto in_order = [&](const Tensor& of_patches) {
    const Tensor position = of_patches.to(at::kFloat).contiguous();
    AlignedBuffer<float> ordered(static_cast<std::size_t>(position.numel()));
    for (const TokenOrder::Run& run : geometry.order.runs)
      std::copy_n(position.const_data_ptr<float>() + run.patch * dim, run.count * dim,
                  ordered.data() + run.token * dim);
    return ordered;
  };
  geometry.position = in_order(embeddings.position);
  for (const Tensor& position : embeddings.layer_positions)
    geometry.layer_positions.push_back(position.defined() ? in_order(position)
                                                          : AlignedBuffer<float>());
  for (const TokenWeights& weights : embeddings.token_weights)
    geometry.token_weights.push_back(
        {static_cast<float>(weights.prefix), static_cast<float>(weights.patch)});
  for (const double scale : embeddings.query_scales)
    geometry.query_scales.push_back(static_cast<float>(scale));
  const auto of_heads = [&](const Tensor& values) {
    if (!values.defined()) return std::vector<float>();
    const Tensor all = values.to(at::kFloat).expand({network.num_heads}).contiguous();
    return std::vector<float>(all.const_data_ptr<float>(),
                              all.const_data_ptr<float>() + all.numel());
  };
  for (const PrefixWeighing& weighing : embeddings.prefix_weighings)
    geometry.prefix_weights.push_back({of_heads(weighing.factor), of_heads(weighing.overview)});
  geometry.grouped.resize(network.blocks.size());
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer) {
    if (!network.blocks[layer].has_groups()) continue;
    const TokenMixer& mixer = model.block(static_cast<std::int64_t>(layer)).attention().mixer();
    geometry.grouped[layer] = group_keys(std::get<FusedSparse>(mixer.fused()), geometry.grid,
                                         geometry.order, network.storage);
  }
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer) {
    RotationTable& table = geometry.rotations.emplace_back();
    const std::optional<Rotation>& rotation = embeddings.rotations[layer];
    if (!network.blocks[layer].turns || !rotation) continue;
    table.cosine = to_buffer(rotation->cosine);
    table.sine = to_buffer(rotation->sine);
    table.table_heads = rotation->cosine.size(1);
    table.half = rotation->cosine.size(2);
    table.neighbours = rotation->neighbours;
  }
  return geometry;
}

std::vector<std::int64_t> module_layers(const PackedNetwork& network) {
  return layers_that(network, is_module);
}

std::vector<std::int64_t> layers_of_all_tokens(const PackedNetwork& network) {
  return layers_that(network, [](const PackedBlock& block) {
    return is_module(block) || block.has_windows() || block.has_groups() || block.local.size > 0 ||
           block.turns || block.has_table;
  });
}

}  // namespace hydrascope::model::inference
