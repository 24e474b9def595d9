#include "model/inference/cpu/streaming_executor.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/swiglu/swiglu.h"
#include "model/inference/cpu/classification_head.h"
#include "model/inference/cpu/token_embedding.h"

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {
namespace {

namespace swiglu = kernels::swiglu;
using kernels::linear::Epilogue;

template <class T>
class Executor final : public StreamingExecutor {
 public:
  Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
           kernels::device::ThreadTeam& team, const ExecutionOptions& options)
      : net_(network),
        geometry_(std::move(geometry)),
        batch_(batch),
        team_(team),
        dim_(network.embed_dim),
        work_(network, geometry_, batch, team.size(), options) {
    geometry_.position = {};
  }
  [[nodiscard]] bool serves(std::int64_t images, std::int64_t rows,
                            std::int64_t columns) const noexcept override {
    return images <= batch_ && rows == geometry_.grid.rows && columns == geometry_.grid.columns;
  }
  void run(const float* images, std::int64_t count, float* logits,
           const Observers& observers) override;

 private:
  using Scratch = inference::Scratch<T>;

  void note_tokens(std::size_t layer, const Tile& tile);
  void project(std::size_t layer, const Tile& tile, int thread, StageClock& clock);
  void finish_block(std::size_t layer, const Tile& tile, int thread, StageClock& clock);
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
  [[nodiscard]] Scratch& scratch_of(int thread) {
    return work_.scratch[static_cast<std::size_t>(thread)];
  }
  /// Tokens that have a query in `layer`.
  [[nodiscard]] std::int64_t queries_of(std::size_t layer) const {
    if (layer + 1 < net_.blocks.size() || net_.head.average) return work_.num_tokens;
    return std::max<std::int64_t>(1, net_.num_prefix);
  }
  /// The number of this tile's rows that have a query.
  [[nodiscard]] std::int64_t query_rows(std::size_t layer, const Tile& tile) const {
    if (work_.layer(layer).manner.wants_all_queries) return tile.rows;
    return tile.rows_before(queries_of(layer));
  }

  const PackedNetwork& net_;
  ImageGeometry geometry_;
  std::int64_t batch_;
  kernels::device::ThreadTeam& team_;
  std::int64_t dim_;
  Workspace<T> work_;
  const TokenTrace* trace_ = nullptr;  ///< the current run's
};

/// Copies the tile's tokens as they enter the block to the trace, in row-major order.
template <class T>
void Executor<T>::note_tokens(std::size_t layer, const Tile& t) {
  if (trace_ == nullptr || t.rows == 0) return;
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
  note(0, t.first, t.rows_before(net_.num_prefix));
  geometry_.for_each_run(t.first, t.rows,
                         [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
                           note(row, net_.num_prefix + patch, count);
                         });
}

template <class T>
void Executor<T>::project(std::size_t layer, const Tile& t, int thread, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  Scratch& scratch = scratch_of(thread);
  layer_norm(work_.tokens(t), t.rows, dim_, scratch.rows);
  clock.lap(Stage::layer_norm);
  MixingRows<T> rows = work_.rows(layer, t, scratch);
  rows.queried = query_rows(layer, t);
  const LinearInput<T> normalised =
      input(block.key_value, scratch.rows, t.rows, scratch, layer, &BlockRanges::qkv);
  apply(block.key_value, normalised, t.rows, rows.keys, rows.stride, Epilogue::store);
  apply(block.query, normalised, rows.queried, rows.queries, rows.query_stride, Epilogue::store);
  if (const RotationTable& rotation = geometry_.layers[layer].rotation; !rotation.empty()) {
    geometry_.for_each_run(
        t.first, t.rows, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
          rotation.turn(rows.keys + row * rows.stride, rows.stride, net_.num_heads, patch, count);
          rotation.turn(rows.queries + row * rows.query_stride, rows.query_stride, net_.num_heads,
                        patch, std::clamp<std::int64_t>(rows.queried - row, 0, count));
        });
  }
  clock.lap(Stage::qkv);
  work_.layer(layer).mixing->absorb(rows, work_.layer(layer).memory, thread);
  clock.lap(Stage::attention);
}

template <class T>
void Executor<T>::finish_block(std::size_t layer, const Tile& t, int thread, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  const auto& of_layer = work_.layer(layer);
  Scratch& scratch = scratch_of(thread);
  T* x = work_.tokens(t);
  const T* mixed = scratch.rows;
  if (of_layer.manner.mixes_all_at_once)
    mixed = work_.mixed(t);
  else
    of_layer.mixing->mix(work_.rows(layer, t, scratch), of_layer.memory, thread, scratch.rows);
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

/// Adds the block's own table of positions to the patches that enter it.
template <class T>
void Executor<T>::add_positions(std::size_t layer, const Tile& t) {
  const kernels::AlignedBuffer<float>& table = geometry_.layers[layer].position;
  if (table.empty()) return;
  const std::int64_t prefix = t.rows_before(net_.num_prefix);
  T* x = work_.tokens(t) + prefix * dim_;
  const float* position = table.data() + (t.first + prefix - net_.num_prefix) * dim_;
  for (std::int64_t i = 0; i < (t.rows - prefix) * dim_; ++i)
    x[i] = T(static_cast<float>(x[i]) + position[i]);
}

template <class T>
void Executor<T>::run(const float* images, std::int64_t count, float* logits,
                      const Observers& observers) {
  trace_ = observers.trace;
  work_.times.assign(work_.times.size(), {});
  StageTimes* const times = observers.times != nullptr ? work_.times.data() : nullptr;
  const auto clock_of = [&](int thread) {
    return StageClock(times != nullptr ? times + thread : nullptr);
  };
  if (observers.ranges != nullptr) {
    for (Scratch& scratch : work_.scratch) scratch.ranges.assign(net_.blocks.size(), {});
  }
  if (geometry_.grid.num_overview() > 0) {
    StageClock clock = clock_of(0);
    make_overviews(net_, images, count, work_, team_);
    clock.lap(Stage::patch_embed);
  }
  const bool is_trace = trace_ != nullptr && trace_->is_all;
  const std::size_t depth =
      is_trace ? static_cast<std::size_t>(trace_->layers.back()) : net_.blocks.size();
  const Extent& extent = work_.extent;
  const auto start = [&](std::int64_t item, int thread) {
    StageClock clock = clock_of(thread);
    const Tile t = tile_of(item, extent);
    embed(net_, geometry_, images, t, work_, scratch_of(thread));
    note_tokens(0, t);
    clock.lap(Stage::patch_embed);
    if (depth > 0 && !work_.projects_late(0, t)) project(0, t, thread, clock);
  };
  team_.run(count * extent.num_tiles(), start);
  for (std::size_t layer = 0; layer < depth; ++layer) {
    // Tokens without a query in the last layer are done.
    const std::int64_t live = queries_of(layer);
    work_.layer(layer).mixing->combine({count, live > net_.num_prefix, team_, times},
                                       work_.layer(layer).memory);
    const auto run_tiles = [&](std::int64_t first, std::int64_t end) {
      const std::int64_t tiles = end - first;
      const auto block = [&](std::int64_t item, int thread) {
        StageClock clock = clock_of(thread);
        // From the last one on: window_borders counts on that.
        const std::int64_t index = end - 1 - item % tiles;
        Tile t = tile_of(item / tiles * extent.num_tiles() + index, extent);
        if (work_.projects_late(layer, t)) project(layer, t, thread, clock);
        t.rows = t.rows_before(live);
        finish_block(layer, t, thread, clock);
        note_tokens(layer + 1, t);
        if (layer + 1 < depth && !work_.projects_late(layer + 1, t))
          project(layer + 1, t, thread, clock);
      };
      team_.run(count * tiles, block);
    };
    if (work_.layer(layer).manner.prefix_last) {
      const std::int64_t prefix_tiles = extent.tiles_before(net_.num_prefix);
      run_tiles(prefix_tiles, extent.num_tiles());
      run_tiles(0, prefix_tiles);
    } else {
      run_tiles(0, extent.tiles_before(live));
    }
  }
  const auto finish = [&](std::int64_t image, int thread) {
    StageClock clock = clock_of(thread);
    classify(net_, work_.tokens({image, 0, 0, 0}), work_.num_tokens, scratch_of(thread).token,
             logits + image * net_.num_classes);
    clock.lap(Stage::head);
  };
  if (!is_trace) team_.run(count, finish);
  if (times != nullptr) {
    for (const StageTimes& of_thread : work_.times) observers.times->add(of_thread);
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
