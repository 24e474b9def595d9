#include "model/inference/network_packer.h"

#include "kernels/error.h"
#include "model/attention/attention.h"
#include "model/inference/cpu/mixing.h"
#include "model/inference/cpu/precision_choice.h"
#include "model/inference/folded_network.h"
#include "model/inference/one_torch_thread.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <variant>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hydrascope::model::inference {
namespace {

using at::Tensor;
using kernels::AlignedBuffer;

/// A mechanism without kernels inside the CPU plan: its module mixes all tokens at once, between two
/// passes over the tiles. Patches lie row after row.
template <class T>
class ModuleMixing final : public Mixing<T> {
 public:
  ModuleMixing(TokenMixer& mixer, Kernels kernels, const MixingSite& site)
      : mixer_(mixer), kernels_(kernels), grid_(site.grid), num_heads_(site.num_heads) {}

  [[nodiscard]] MixingManner manner() const override {
    return {.rows = MixingManner::Rows::until_combined,
            .mixes_all_at_once = true,
            .wants_all_queries = true};
  }
  MixingRoom plan(const Extent&) override { return {}; }

  void combine(const Meeting& meeting, const MixingMemory<T>& memory) const override {
    StageClock clock(meeting.times);
    const std::int64_t tokens = memory.num_tokens;
    const OneTorchThread few(is_little_work(meeting.images * tokens * memory.dim));
    const MixingRows<T>& rows = memory.kept;
    const auto heads = [&](T* from, std::int64_t stride) {
      return split_heads(at::from_blob(from, {meeting.images, tokens, memory.dim},
                                       {tokens * stride, stride, 1}, kType),
                         num_heads_);
    };
    at::from_blob(memory.mixed, {meeting.images, tokens, memory.dim}, kType)
        .copy_(mixer_.mix(heads(rows.queries, rows.query_stride), heads(rows.keys, rows.stride),
                          heads(rows.values, rows.stride), grid_, kernels_));
    clock.lap(Stage::module);
  }

 private:
  static constexpr at::ScalarType kType = sizeof(T) == 4 ? at::kFloat : at::kBFloat16;

  TokenMixer& mixer_;
  Kernels kernels_;
  TokenGrid grid_;
  std::int64_t num_heads_;
};

AlignedBuffer<float> to_buffer(const Tensor& values) {
  const Tensor flat = values.to(at::kFloat).contiguous();
  AlignedBuffer<float> buffer(static_cast<std::size_t>(flat.numel()));
  std::copy_n(flat.const_data_ptr<float>(), flat.numel(), buffer.data());
  return buffer;
}

PackedNorm pack(const FoldedNorm& norm) { return {to_buffer(norm.weight), to_buffer(norm.bias)}; }

PackedLinear pack(kernels::Storage storage, const Affine& linear,
                  kernels::device::ThreadTeam* team = nullptr) {
  using kernels::linear::Form;
  // Rows of float32 read no tiles.
  const Form form = row_storage() == kernels::Storage::float32 ? Form::panels : Form::automatic;
  const Tensor weight = linear.weight.to(at::kFloat).contiguous();
  PackedLinear packed;
  packed.weight =
      kernels::linear::PackedWeight(storage, weight.const_data_ptr<float>(), weight.size(0),
                                    weight.size(1), weight.size(1), form, team);
  packed.bias = to_buffer(linear.bias);
  return packed;
}

/// Factors of the input's channels before they are quantised, and divisors of the weight's columns:
/// sqrt(max |W_k| / max |x_k|), which gives both the same range (Xiao et al. 2022, arXiv
/// 2211.10438, equation 4 with alpha 0.5). Undefined without ranges.
Tensor channel_multiplier(const Tensor& weight, const std::vector<float>& range) {
  if (range.empty()) return {};
  const Tensor inputs = at::tensor(range, at::kDouble);
  const Tensor weights = std::get<0>(weight.abs().max(0));
  return at::where(inputs.gt(0).logical_and(weights.gt(0)), (weights / inputs).sqrt(),
                   at::ones_like(inputs));
}

PackedLinear pack_int8(const Affine& linear, const Tensor& multiplier,
                       kernels::device::ThreadTeam* team) {
  const Tensor weight = (multiplier.defined() ? linear.weight / multiplier : linear.weight)
                            .to(at::kFloat)
                            .contiguous();
  PackedLinear packed;
  packed.quantised = kernels::quantised_linear::QuantisedWeight(
      weight.const_data_ptr<float>(), weight.size(0), weight.size(1), weight.size(1),
      kernels::quantised_linear::fastest_form(), team);
  packed.bias = to_buffer(linear.bias);
  if (multiplier.defined()) packed.multiplier = to_buffer(multiplier);
  return packed;
}

/// The storage of weights that are not 8 bits.
kernels::Storage weight_storage(const InferenceOptions& options) {
  return options.precision.dtype == at::kFloat ? kernels::Storage::float32
                                               : kernels::Storage::bfloat16;
}

/// Bytes of a block's matrices in float32.
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

/// The kernels of a layer; null: it runs as a module. Patches lie row after row beside any module.
const KernelForm* form_of(const ModelParts& parts, std::int64_t layer, bool in_windows) {
  const KernelForm* const form = parts.form(layer);
  return form != nullptr && (in_windows || form->serves_rows()) ? form : nullptr;
}

/// `team`: null where its threads pack other blocks.
PackedBlock pack_block(const WeightTable& weights, const ModelParts& parts, std::int64_t layer,
                       const BlockRanges& ranges, const InferenceOptions& options, bool in_windows,
                       kernels::device::ThreadTeam* team) {
  const kernels::Storage storage = weight_storage(options);
  const KernelForm* const form = form_of(parts, layer, in_windows);
  FoldedBlock folded =
      fold_block(weights, layer, *parts.attention[static_cast<std::size_t>(layer)], form);
  const auto packed = [&](const Affine& linear, const Tensor& multiplier) {
    return options.precision.int8 ? pack_int8(linear, multiplier, team)
                                  : pack(storage, linear, team);
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
  if (folded.norm1) {
    block.norm1 = pack(*folded.norm1);
    block.norm2 = pack(*folded.norm2);
  }
  block.has_kernels = form != nullptr;
  return block;
}

PackedExits pack_exits(const FoldedExits& folded) {
  const auto packed = [](const Affine& linear) { return pack(kernels::Storage::float32, linear); };
  PackedExits exits;
  for (const FoldedClassBlock& block : folded.blocks) {
    PackedClassBlock& of = exits.blocks.emplace_back();
    of.query = packed(block.query);
    for (const Affine& key : block.keys) of.keys.push_back(packed(key));
    of.value = packed(block.value);
    of.proj = packed(block.proj);
    of.fc1 = packed(block.fc1);
    of.fc2 = packed(block.fc2);
  }
  exits.norm = {to_buffer(folded.norm.weight), to_buffer(folded.norm.bias)};
  exits.classifier = packed(folded.classifier);
  exits.stop = packed(folded.stop);
  return exits;
}

}  // namespace

bool has_large_blocks(const VitConfig& config) {
  constexpr std::int64_t kLarge = std::int64_t{16} << 20;
  return bytes_of_a_block(config) >= kLarge;
}

PackedNetwork pack_network(const WeightTable& weights, const ModelParts& parts,
                           const InferenceOptions& options, const ChannelRanges* ranges,
                           kernels::device::ThreadTeam& team) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = parts.config;
  PackedNetwork network;
  const kernels::Storage of_weights = weight_storage(options);
  network.storage = of_weights == kernels::Storage::float32 ? of_weights : row_storage();
  network.embed_dim = config.embed_dim;
  network.hidden_dim = config.hidden_dim();
  network.gated_mlp = config.swiglu_mlp;
  network.normed_mlp = config.scale_mlp;
  network.normed_mixed = config.scale_attn;
  if (config.act == Activation::quick_gelu) network.gelu = kernels::gelu::kQuick;
  if (config.act == Activation::gelu_tanh) network.gelu = kernels::gelu::kTanh;
  network.num_heads = config.num_heads;
  network.num_prefix = config.num_prefix_tokens();
  network.patch_size = config.patch_size;
  network.in_chans = config.in_chans;
  network.num_classes = config.num_classes;
  network.layer_norm_eps = static_cast<float>(config.layer_norm_eps);
  network.rms_norm = config.rms_norm;

  network.window = common_window(parts);
  network.patch_embed = pack(of_weights, fold_patch_embed(weights));
  if (config.patch_norm) network.patch_norm = pack(fold_norm(weights, "patch_embed.norm"));
  if (config.norm_pre) network.norm_pre = pack(fold_norm(weights, "norm_pre"));

  network.blocks.resize(static_cast<std::size_t>(config.depth));
  // Several blocks at a time take several times the memory.
  constexpr std::int64_t kLittle = std::int64_t{32} << 20;
  const bool together = bytes_of_a_block(config) * team.size() <= kLittle;
  const auto pack_layer = [&](std::int64_t layer, int) {
    const at::NoGradGuard of_this_thread;
    const OneTorchThread beside_the_others(together);
    const auto index = static_cast<std::size_t>(layer);
    network.blocks[index] =
        pack_block(weights, parts, layer, ranges != nullptr ? ranges->at(index) : BlockRanges{},
                   options, network.window.has_value(), together ? nullptr : &team);
  };
  if (together) {
    team.run(config.depth, pack_layer);
  } else {
    for (std::int64_t layer = 0; layer < config.depth; ++layer) {
      pack_layer(layer, 0);
      if (has_large_blocks(config)) give_back_freed_memory();
    }
  }

  const FoldedHead head = fold_head(weights);
  network.head.average = config.global_pool == Pooling::avg;
  network.head.norm_after_pool = config.fc_norm;
  if (head.norm) network.head.norm = pack(*head.norm);
  if (head.pool) {
    const auto in_float = [](const Affine& linear) {
      return pack(kernels::Storage::float32, linear);
    };
    network.head.pool = {config.unpooled_tokens(),   in_float(head.pool->score),
                         in_float(head.pool->value), in_float(head.pool->proj),
                         in_float(head.pool->fc1),   in_float(head.pool->fc2)};
  }
  if (config.num_classes > 0)
    network.head.classifier = pack(kernels::Storage::float32, head.classifier);
  if (config.num_classes > 0 && config.distilled)
    network.head.distilled = pack(kernels::Storage::float32, head.distilled);
  if (options.exits != Exits::off) {
    if (!config.branch_exits().empty()) network.exits = pack_exits(fold_exits(weights));
    network.exits.layers = config.exits;
    network.exits.coarse = config.coarse_exits;
  }
  give_back_freed_memory();
  return network;
}

namespace {

/// The order of the tokens and the mixings of a grid: all but the tokens' first values.
ImageGeometry of_grid(const ModelParts& parts, const PackedNetwork& network, Kernels kernels,
                      const TokenGrid& grid) {
  ImageGeometry geometry;
  geometry.grid = grid;
  geometry.order = token_order(grid, network.window.value_or(GridExtent{grid.rows, grid.columns}));
  const MixingSite site = site_of(network, geometry);
  for (std::size_t index = 0; index < network.blocks.size(); ++index) {
    const auto layer = static_cast<std::int64_t>(index);
    TokenMixer& mixer = parts.mixer(layer);
    ImageGeometry::Layer& of_layer = geometry.layers.emplace_back();
    if (!network.blocks[index].has_kernels) {
      of_layer.mixing = make_mixing<ModuleMixing>(network.storage, mixer, kernels, site);
      continue;
    }
    of_layer.mixing = parts.form(layer)->on_cpu(site, network.storage);
    if (std::visit([](const auto& mixing) { return mixing == nullptr; }, of_layer.mixing))
      throw Error(ErrorCode::internal, "the mechanism's form has no kernels for this size",
                  block_prefix(layer) + "attn");
    const PositionRule* const rule = mixer.position();
    if (rule == nullptr) continue;
    const auto rotation = rule->rotation(geometry.grid, site.head_dim);
    if (!rotation)
      throw Error(ErrorCode::internal, "the position rule has no table for the kernels",
                  block_prefix(layer) + "attn");
    RotationTable& table = of_layer.rotation;
    table.cosine = to_buffer(rotation->cosine);
    table.sine = to_buffer(rotation->sine);
    table.table_heads = rotation->cosine.size(1);
    table.half = rotation->cosine.size(2);
    table.neighbours = rotation->neighbours;
  }
  return geometry;
}

}  // namespace

ImageGeometry make_geometry(const ModelParts& parts, const PackedNetwork& network, Kernels kernels,
                            std::int64_t grid_rows, std::int64_t grid_columns) {
  const std::int64_t dim = network.embed_dim;
  const OneTorchThread few(is_little_work(grid_rows * grid_columns * dim));
  const Embeddings embeddings = make_embeddings(parts, grid_rows, grid_columns);
  const TokenGrid grid = parts.config.token_grid(grid_rows, grid_columns);
  ImageGeometry geometry = of_grid(parts, network, kernels, grid);
  if (network.exits.coarse)
    geometry.coarse =
        std::make_unique<ImageGeometry>(of_grid(parts, network, kernels, coarse(grid)));
  if (embeddings.prefix.defined()) geometry.prefix = to_buffer(embeddings.prefix);
  const auto in_order = [&](const Tensor& of_patches) {
    const Tensor position = of_patches.to(at::kFloat).contiguous();
    AlignedBuffer<float> ordered(static_cast<std::size_t>(position.numel()));
    for (const TokenOrder::Run& run : geometry.order.runs)
      std::copy_n(position.const_data_ptr<float>() + run.patch * dim, run.count * dim,
                  ordered.data() + run.token * dim);
    return ordered;
  };
  geometry.position = in_order(embeddings.position);
  for (std::size_t index = 0; index < network.blocks.size(); ++index)
    if (const Tensor& table = embeddings.layer_positions[index]; table.defined())
      geometry.layers[index].position = in_order(table);
  return geometry;
}

std::vector<std::int64_t> module_layers(const PackedNetwork& network) {
  std::vector<std::int64_t> layers;
  for (std::size_t layer = 0; layer < network.blocks.size(); ++layer)
    if (!network.blocks[layer].has_kernels) layers.push_back(static_cast<std::int64_t>(layer));
  return layers;
}

}  // namespace hydrascope::model::inference
