#include "model/inference/cpu/streaming_executor.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/local_convolution/local_convolution.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/swiglu/swiglu.h"
#include "model/inference/cpu/classification_head.h"
#include "model/inference/cpu/group_mixing.h"
#include "model/inference/cpu/token_embedding.h"
#include "model/inference/cpu/token_reduction.h"
#include "model/inference/cpu/workspace.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

namespace hydra = kernels::hydra;
namespace linear_attention = kernels::linear_attention;
namespace local_convolution = kernels::local_convolution;
namespace softmax_attention = kernels::softmax_attention;
namespace swiglu = kernels::swiglu;
using kernels::linear::Epilogue;

template <class T>
void multiply(T* rows, std::int64_t count, std::int64_t width, std::int64_t stride, float scale) {
  for (; count > 0; --count, rows += stride)
    for (std::int64_t i = 0; i < width; ++i) rows[i] = T(scale * static_cast<float>(rows[i]));
}

template <class T>
class Executor final : public StreamingExecutor {
 public:
  Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
           kernels::device::ThreadTeam& team, const ExecutionOptions& options)
      : net_(network),
        geometry_(std::move(geometry)),
        team_(team),
        dim_(network.embed_dim),
        work_(network, geometry_, batch, team.size(), options) {
    geometry_.position = {};
  }
  void run(const float* images, std::int64_t count, float* logits,
           const Observers& observers) override;

 private:
  using Scratch = inference::Scratch<T>;

  void note_tokens(std::size_t layer, const Tile& tile);
  void project(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  [[nodiscard]] T* queries_of(std::size_t layer, const Tile& tile, const Scratch& scratch) {
    return work_.projects_late(layer, tile) ? scratch.queries : work_.queries(tile);
  }
  /// Keys and values of a tile's first row, those of the other rows behind it.
  [[nodiscard]] T* keys_of(std::size_t layer, const Tile& tile, const Scratch& scratch) {
    const bool stored = work_.stores_keys(layer) && !work_.projects_late(layer, tile);
    return stored ? work_.stored_keys(layer, tile) : scratch.wide;
  }
  void combine(std::size_t layer, std::int64_t count, StageTimes* times);
  void finish_block(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  const T* mix(std::size_t layer, const Tile& tile, Scratch& scratch);
  void mix_windows(std::size_t layer, const Tile& tile, Scratch& scratch);
  void add_local_term(std::size_t layer, const Tile& tile, T* mixed);
  void add_positions(std::size_t layer, const Tile& tile);

  LinearInput<T> input(const PackedLinear& layer, const T* rows, std::int64_t count,
                       Scratch& scratch, std::size_t block, RangeSite site) const {
    if (!scratch.ranges.empty()) raise(scratch.ranges[block].*site, rows, count, layer.in());
    return linear_input(layer, rows, count, scratch.quantised);
  }
  void layer_norm(const T* x, std::int64_t rows, std::int64_t dim, T* y) const {
    kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
        x, dim, rows, dim, nullptr, nullptr, net_.layer_norm_eps, y, dim});
  }
  /// Tokens that have a query in `layer`.
  [[nodiscard]] std::int64_t queries_of(std::size_t layer) const {
    if (layer + 1 < net_.blocks.size() || net_.head.average) return work_.keys_of(layer).num_tokens;
    return std::max<std::int64_t>(1, net_.num_prefix);
  }
  /// How many rows of this tile have a query.
  [[nodiscard]] std::int64_t query_rows(std::size_t layer, const Tile& tile) const {
    if (std::holds_alternative<ModuleLayer>(net_.blocks[layer].mixing)) return tile.rows;
    return std::clamp<std::int64_t>(queries_of(layer) - tile.first, 0, tile.rows);
  }
  [[nodiscard]] std::int64_t prefix_rows(const Tile& t) const {
    return std::clamp<std::int64_t>(net_.num_prefix - t.first, 0, t.rows);
  }

  const PackedNetwork& net_;
  ImageGeometry geometry_;
  kernels::device::ThreadTeam& team_;
  std::int64_t dim_;
  Workspace<T> work_;
  const TokenTrace* trace_ = nullptr;  ///< of the run at hand
};

/// The tile's tokens as they enter the block, to where the trace wants them: in row-major order.
template <class T>
void Executor<T>::note_tokens(std::size_t layer, const Tile& t) {
  const auto& layers = trace_->layers;
  const auto wanted = std::ranges::lower_bound(layers, static_cast<std::int64_t>(layer));
  if (wanted == layers.end() || *wanted != static_cast<std::int64_t>(layer)) return;
  const std::int64_t slot = t.image * std::ssize(layers) + (wanted - layers.begin());
  float* tokens = trace_->tokens + slot * work_.num_tokens * dim_;
  const auto note = [&](std::int64_t row, std::int64_t token, std::int64_t count) {
    const T* x = work_.tokens(t) + row * dim_;
    float* to = tokens + token * dim_;
    for (std::int64_t i = 0; i < count * dim_; ++i) to[i] = static_cast<float>(x[i]);
  };
  note(0, t.first, prefix_rows(t));
  geometry_.for_each_run(t.first, t.rows,
                         [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
                           note(row, net_.num_prefix + patch, count);
                         });
}

template <class T>
void Executor<T>::project(std::size_t layer, const Tile& t, Scratch& scratch, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  if (trace_ != nullptr) note_tokens(layer, t);
  layer_norm(work_.tokens(t), t.rows, dim_, scratch.rows);
  clock.lap(Stage::layer_norm);
  const std::int64_t width = block.key_value.out();
  const std::int64_t num_tiles = work_.keys_of(layer).num_tiles();
  T* queries = queries_of(layer, t, scratch);
  T* keys_values = keys_of(layer, t, scratch);
  const LinearInput<T> normalised =
      input(block.key_value, scratch.rows, t.rows, scratch, layer, &BlockRanges::qkv);
  apply(block.key_value, normalised, t.rows, keys_values, width, Epilogue::store);
  const std::int64_t with_query = query_rows(layer, t);
  apply(block.query, normalised, with_query, queries, work_.query_stride, Epilogue::store);
  if (block.turns) {
    const RotationTable& rotation = geometry_.rotations[layer];
    geometry_.for_each_run(
        t.first, t.rows, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
          rotation.turn(keys_values + row * width, width, net_.num_heads, patch, count);
          rotation.turn(queries + row * work_.query_stride, work_.query_stride, net_.num_heads,
                        patch, std::clamp<std::int64_t>(with_query - row, 0, count));
        });
  }
  if (const float scale = geometry_.query_scales[layer]; scale != 1)
    multiply(queries, with_query, block.query_width(), work_.query_stride, scale);
  clock.lap(Stage::qkv);
  const T* keys = keys_values;
  const T* values = keys_values + block.key_width(dim_);
  const ImageGeometry::TokenWeights& weights = geometry_.token_weights[layer];
  const std::int64_t prefix = prefix_rows(t);
  if (const auto* h = std::get_if<HydraLayer>(&block.mixing)) {
    hydra::ProjectParams<T> p{};
    p.q = queries;
    p.q_stride = work_.query_stride;
    p.query_rows = h->beside_window ? 0 : with_query;
    p.q_hat = queries;
    p.q_hat_stride = work_.query_stride;
    p.k = keys;
    p.v = values;
    p.stride = width;
    p.rows = t.rows;
    p.dim = dim_;
    p.kernel = h->kernel;
    p.num_prefix = prefix;
    p.prefix_weight = weights.prefix;
    p.patch_weight = weights.patch;
    p.sum = work_.hydra_sums.data() + (t.image * num_tiles + t.index) * dim_;
    hydra::project(p);
  } else if (const auto* l = std::get_if<LinearLayer>(&block.mixing)) {
    linear_attention::AccumulateParams<T> p{};
    p.shape = l->shape;
    p.k = keys;
    p.k_stride = width;
    p.v = values;
    p.v_stride = width;
    p.rows = t.rows;
    p.num_prefix = prefix;
    p.prefix_weight = weights.prefix;
    p.patch_weight = weights.patch;
    p.sums = work_.linear_sums.data() + static_cast<std::size_t>(t.image * num_tiles + t.index) *
                                            linear_attention::sums_size(l->shape);
    p.scratch = scratch.mixing;
    linear_attention::clear(l->shape, p.sums);
    linear_attention::accumulate(p);
  } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
    softmax_attention::pack(softmax_attention::PackParams<T>{
        work_.softmax_shape(work_.keys_of(layer)), keys, values, width, t.first, t.rows,
        work_.softmax_keys(layer, t.image), work_.softmax_values(layer, t.image)});
  }
  clock.lap(Stage::attention);
}

template <class T>
void Executor<T>::combine(std::size_t layer, std::int64_t count, StageTimes* times) {
  const MixingLayer& mixing = net_.blocks[layer].mixing;
  const std::int64_t num_tiles = work_.keys_of(layer).num_tiles();
  StageClock clock(times);
  if (const auto* h = std::get_if<HydraLayer>(&mixing)) {
    for (std::int64_t image = 0; image < count; ++image)
      hydra::combine(work_.hydra_sums.data() + image * num_tiles * dim_, num_tiles, dim_, 1.0F,
                     h->feature_scale.empty() ? nullptr : h->feature_scale.data(),
                     work_.hydra_global.data() + image * dim_);
  } else if (const auto* l = std::get_if<LinearLayer>(&mixing)) {
    const std::int64_t heads = l->shape.num_heads;
    const std::size_t sums = linear_attention::sums_size(l->shape);
    const auto combine_head = [&](std::int64_t item, int) {
      const auto image = static_cast<std::size_t>(item / heads);
      linear_attention::combine(linear_attention::CombineParams<T>{
          l->shape, work_.linear_sums.data() + image * static_cast<std::size_t>(num_tiles) * sums,
          num_tiles, item % heads, 1,
          work_.linear_state.data() + image * work_.linear_state_stride});
    };
    team_.run(count * heads, combine_head);
  } else if (net_.blocks[layer].has_groups()) {
    const bool with_patches = queries_of(layer) > net_.num_prefix;
    return mix_groups(net_, geometry_, layer, with_patches, count, times != nullptr, work_, team_);
  } else if (const auto* m = std::get_if<ModuleLayer>(&mixing)) {
    m->mix(count, geometry_.grid, work_.q.data(), work_.query_stride,
           work_.stored_keys(layer, {0, 0, 0, 0}), work_.mixed.data());
    clock.lap(Stage::module);
  }
  clock.lap(Stage::attention);
}

/// A tile's patches window by window: those of a window that tiles share, each by its own. Prefix
/// rows want all other tiles to have asked for theirs.
template <class T>
void Executor<T>::mix_windows(std::size_t layer, const Tile& t, Scratch& scratch) {
  const PackedBlock& block = net_.blocks[layer];
  const std::int64_t prefix = net_.num_prefix;
  const std::int64_t end = t.first + t.rows;
  const T* queries = queries_of(layer, t, scratch);
  const T* keys = keys_of(layer, t, scratch);
  std::int64_t token = std::max(t.first, prefix);
  auto window = std::ranges::upper_bound(geometry_.order.windows, token - prefix) - 1;
  for (; token < end; ++window) {
    const std::int64_t first = prefix + window[0];
    const std::int64_t size = window[1] - window[0];
    const softmax_attention::Shape shape = work_.softmax_shape(prefix + size);
    const auto pack = [&](const T* from, std::int64_t rows, std::int64_t to) {
      softmax_attention::pack(softmax_attention::PackParams<T>{
          shape, from, from + block.key_width(dim_), block.key_value.out(), to, rows,
          scratch.window_keys, scratch.window_values});
    };
    pack(work_.stored_keys(layer, {t.image, 0, 0, prefix}), prefix, 0);
    pack(keys + (first - t.first) * block.key_value.out(), size, prefix);
    const std::int64_t row = token - t.first;
    const std::int64_t rows = std::min(end, first + size) - token;
    softmax_attention::attend(softmax_attention::AttendParams<T>{
        shape, queries + row * work_.query_stride, work_.query_stride, rows, scratch.window_keys,
        scratch.window_values, scratch.rows + row * dim_, dim_, scratch.mixing});
    token += rows;
  }
  // What prefix tokens see of the tile, while its keys are in the cache.
  for (std::size_t i = 0; i < work_.parts.size(); ++i) {
    const KeyPart& part = work_.parts[i];
    if (part.tile != t.index) continue;
    ask_for_prefix(net_, geometry_, layer, t.image, i,
                   keys + (part.first - t.first) * block.key_value.out(), work_);
  }
  merge_prefix(net_, t.image, prefix_rows(t), work_, scratch.rows);
}

/// A tile's patches see the values of those around them, in other tiles, too.
template <class T>
void Executor<T>::add_local_term(std::size_t layer, const Tile& t, T* mixed) {
  const PackedBlock& block = net_.blocks[layer];
  const std::int64_t stride = block.key_value.out();
  const T* values =
      work_.stored_keys(layer, {t.image, 0, net_.num_prefix, 0}) + block.key_width(dim_);
  geometry_.for_each_run(
      t.first, t.rows, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
        const ImageGeometry::Plane plane = geometry_.plane_of(patch);
        local_convolution::add(
            local_convolution::AddParams<T>{{plane.rows, plane.columns, dim_, block.local.size},
                                            values + plane.first * stride,
                                            stride,
                                            block.local.weight.data(),
                                            patch - plane.first,
                                            count,
                                            mixed + row * dim_,
                                            dim_});
      });
}

template <class T>
const T* Executor<T>::mix(std::size_t layer, const Tile& t, Scratch& scratch) {
  const PackedBlock& block = net_.blocks[layer];
  const T* q = work_.queries(t);
  if (const auto* h = std::get_if<HydraLayer>(&block.mixing)) {
    const float* global = work_.hydra_global.data() + t.image * dim_;
    if (h->beside_window) {
      mix_windows(layer, t, scratch);
      hydra::add_gated(hydra::AddGatedParams<T>{q, work_.query_stride, t.rows, dim_,
                                                *h->beside_window, global, scratch.rows, dim_});
    } else {
      hydra::gate(
          hydra::GateParams<T>{q, work_.query_stride, global, t.rows, dim_, scratch.rows, dim_});
    }
  } else if (const auto* l = std::get_if<LinearLayer>(&block.mixing)) {
    linear_attention::read_out(linear_attention::ReadOutParams<T>{
        l->shape, q, work_.query_stride, t.rows,
        work_.linear_state.data() + static_cast<std::size_t>(t.image) * work_.linear_state_stride,
        scratch.rows, dim_, scratch.mixing});
  } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
    softmax_attention::attend(softmax_attention::AttendParams<T>{
        work_.softmax_shape(work_.keys_of(layer)), q, work_.query_stride, t.rows,
        work_.softmax_keys(layer, t.image), work_.softmax_values(layer, t.image), scratch.rows,
        dim_, scratch.mixing});
  } else if (std::holds_alternative<WindowLayer>(block.mixing)) {
    mix_windows(layer, t, scratch);
  } else {
    return work_.mixed.data() + (t.image * work_.num_tokens + t.first) * dim_;
  }
  if (block.local.size > 0) add_local_term(layer, t, scratch.rows);
  return scratch.rows;
}

template <class T>
void Executor<T>::finish_block(std::size_t layer, const Tile& t, Scratch& scratch,
                               StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  T* x = work_.tokens(t);
  const T* mixed = mix(layer, t, scratch);
  clock.lap(Stage::attention);
  if (t.rows == 0) return;
  apply(block.proj, input(block.proj, mixed, t.rows, scratch, layer, &BlockRanges::proj), t.rows, x,
        dim_, Epilogue::add);
  clock.lap(Stage::proj);
  layer_norm(x, t.rows, dim_, scratch.rows);
  clock.lap(Stage::layer_norm);
  apply(block.fc1, input(block.fc1, scratch.rows, t.rows, scratch, layer, &BlockRanges::fc1),
        t.rows, scratch.wide, block.fc1.out(), net_.gated_mlp ? Epilogue::store : Epilogue::gelu);
  if (net_.gated_mlp)
    swiglu::swiglu(swiglu::SwigluParams<T>{scratch.wide, t.rows, net_.hidden_dim, scratch.wide});
  if (net_.normed_mlp) layer_norm(scratch.wide, t.rows, net_.hidden_dim, scratch.wide);
  apply(block.fc2, input(block.fc2, scratch.wide, t.rows, scratch, layer, &BlockRanges::fc2),
        t.rows, x, dim_, Epilogue::add);
  if (layer + 1 < net_.blocks.size()) add_positions(layer + 1, t);
  clock.lap(Stage::mlp);
}

/// What the block's own table adds to the patches that enter it.
template <class T>
void Executor<T>::add_positions(std::size_t layer, const Tile& t) {
  if (!net_.blocks[layer].has_table) return;
  const std::int64_t prefix = prefix_rows(t);
  T* x = work_.tokens(t) + prefix * dim_;
  const float* position =
      geometry_.layer_positions[layer].data() + (t.first + prefix - net_.num_prefix) * dim_;
  for (std::int64_t i = 0; i < (t.rows - prefix) * dim_; ++i)
    x[i] = T(static_cast<float>(x[i]) + position[i]);
}

template <class T>
void Executor<T>::run(const float* images, std::int64_t count, float* logits,
                      const Observers& observers) {
  StageTimes* const times = observers.times;
  trace_ = observers.trace;
  for (Scratch& scratch : work_.scratch) {
    scratch.times = {};
    if (observers.ranges != nullptr) scratch.ranges.assign(net_.blocks.size(), {});
  }
  const auto clock_of = [&](Scratch& scratch) {
    return StageClock(times != nullptr ? &scratch.times : nullptr);
  };
  if (geometry_.grid.num_overview() > 0) {
    StageClock clock(times);
    make_overviews(net_, images, count, work_, team_);
    clock.lap(Stage::patch_embed);
  }
  const auto start = [&](std::int64_t item, int thread) {
    Scratch& scratch = work_.scratch[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    const Tile t = tile_of(item, work_.whole);
    embed(net_, geometry_, images, t, work_, scratch);
    clock.lap(Stage::patch_embed);
    if (!work_.projects_late(0, t)) project(0, t, scratch, clock);
  };
  team_.run(count * work_.whole.num_tiles(), start);
  const std::size_t depth = net_.blocks.size();
  for (std::size_t layer = 0; layer < depth; ++layer) {
    combine(layer, count, times);
    if (work_.reduces(layer)) {
      StageClock clock(times);
      drop_tokens(net_, geometry_.token_weights[layer], layer, count, work_, team_);
      clock.lap(Stage::attention);
    }
    const bool last = layer + 1 == depth;
    const Extent& extent = work_.outputs_of(layer);
    // Tokens without a query in the last layer are done.
    const std::int64_t live = last ? queries_of(layer) : extent.num_tokens;
    const auto run_tiles = [&](std::int64_t first, std::int64_t end) {
      const std::int64_t tiles = end - first;
      const auto block = [&](std::int64_t item, int thread) {
        Scratch& scratch = work_.scratch[static_cast<std::size_t>(thread)];
        StageClock clock = clock_of(scratch);
        // From the last one on: window_borders counts on that.
        const std::int64_t index = end - 1 - item % tiles;
        Tile t = tile_of(item / tiles * extent.num_tiles() + index, extent);
        if (work_.projects_late(layer, t)) project(layer, t, scratch, clock);
        t.rows = std::clamp<std::int64_t>(live - t.first, 0, t.rows);
        finish_block(layer, t, scratch, clock);
        if (!last && !work_.projects_late(layer + 1, t)) project(layer + 1, t, scratch, clock);
      };
      team_.run(count * tiles, block);
    };
    if (net_.blocks[layer].has_windows()) {
      const std::int64_t prefix_tiles = extent.tiles_before(net_.num_prefix);
      run_tiles(prefix_tiles, extent.num_tiles());
      run_tiles(0, prefix_tiles);
    } else {
      run_tiles(0, extent.tiles_before(live));
    }
  }
  const auto finish = [&](std::int64_t image, int thread) {
    Scratch& scratch = work_.scratch[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    classify(net_, work_.tokens({image, 0, 0, 0}), work_.num_tokens, scratch.token,
             logits + image * net_.num_classes);
    clock.lap(Stage::head);
  };
  team_.run(count, finish);
  if (times != nullptr) {
    for (const Scratch& scratch : work_.scratch) times->add(scratch.times);
  }
  if (observers.ranges != nullptr) {
    observers.ranges->resize(net_.blocks.size());
    for (Scratch& scratch : work_.scratch) {
      raise(*observers.ranges, scratch.ranges);
      scratch.ranges.clear();
    }
  }
}

}  // namespace

std::unique_ptr<StreamingExecutor> StreamingExecutor::make(const PackedNetwork& network,
                                                           ImageGeometry geometry,
                                                           std::int64_t batch,
                                                           kernels::device::ThreadTeam& team,
                                                           const ExecutionOptions& options) {
  if (network.storage == kernels::Storage::float32)
    return std::make_unique<Executor<float>>(network, std::move(geometry), batch, team, options);
  return std::make_unique<Executor<kernels::BFloat16>>(network, std::move(geometry), batch, team,
                                                       options);
}

}  // namespace hydrascope::model::inference
