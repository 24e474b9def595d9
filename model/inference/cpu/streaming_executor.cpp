#include "model/inference/cpu/streaming_executor.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/swiglu/swiglu.h"
#include "model/inference/cpu/classification_head.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hydrascope::model::inference {
namespace {

namespace swiglu = kernels::swiglu;
using kernels::linear::Epilogue;

}  // namespace

template <class T>
MixingRows<T> StreamingExecutor<T>::rows_of(std::size_t layer, const Tile& t,
                                            const Scratch& of_thread) {
  const PackedBlock& block = net_.blocks[layer];
  const bool late = projects_late(layer, t);
  MixingRows<T> rows{t, t.rows};
  rows.queries = late ? of_thread.queries : q_.data() + row(t) * query_stride_;
  rows.query_stride = query_stride_;
  rows.stride = block.key_value.out();
  const bool passing = layers_[layer].manner.rows == MixingManner::Rows::passing && !splits_all_;
  rows.num_heads = net_.num_heads;
  rows.keys =
      late || passing ? of_thread.wide : layers_[layer].memory.kept.keys + row(t) * rows.stride;
  rows.values = rows.keys + block.key_width(dim_);
  return rows;
}

template <class T>
LinearInput<T> StreamingExecutor<T>::input(const PackedLinear& layer, const T* rows,
                                           std::int64_t stride, std::int64_t count,
                                           Scratch& scratch, std::size_t block,
                                           RangeSite site) const {
  for (std::int64_t row = 0; !scratch.ranges.empty() && row < count; ++row)
    raise(scratch.ranges[block].*site, rows + row * stride, 1, layer.in());
  return linear_input(layer, rows, stride, count, scratch.quantised);
}

template <class T>
void StreamingExecutor<T>::norm(const T* x, std::int64_t stride, std::int64_t rows,
                                std::int64_t dim, T* y) const {
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
      x, stride, rows, dim, nullptr, nullptr, net_.layer_norm_eps, y, dim, net_.rms_norm});
}

template <class T>
void StreamingExecutor<T>::norm(const PackedNorm& norm, std::int64_t rows, T* x) const {
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
      x, dim_, rows, dim_, norm.weight.data(), norm.bias.data(), net_.layer_norm_eps, x, dim_,
      net_.rms_norm});
}

/// Copies the tile's tokens as they enter the block to the trace, in row-major order.
template <class T>
void StreamingExecutor<T>::note_tokens(std::size_t layer, const Tile& t) {
  if (trace_ == nullptr || t.rows == 0) return;
  const auto& layers = trace_->layers;
  const auto wanted = std::ranges::lower_bound(layers, static_cast<std::int64_t>(layer));
  if (wanted == layers.end() || *wanted != static_cast<std::int64_t>(layer)) return;
  const std::int64_t slot = t.image * std::ssize(layers) + (wanted - layers.begin());
  float* to_image = trace_->tokens + slot * num_tokens_ * dim_;
  const auto note = [&](std::int64_t row, std::int64_t token, std::int64_t count) {
    const T* x = tokens(t) + row * dim_;
    float* to = to_image + token * dim_;
    for (std::int64_t i = 0; i < count * dim_; ++i) to[i] = static_cast<float>(x[i]);
  };
  note(0, t.first, t.rows_before(net_.num_prefix));
  geometry_.for_each_run(t.first, t.rows,
                         [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
                           note(row, net_.num_prefix + patch, count);
                         });
}

template <class T>
void StreamingExecutor<T>::project(std::size_t layer, const Tile& t, int thread,
                                   StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  Scratch& scratch = scratch_of(thread);
  const T* read = tokens(t);
  if (block.norm1.empty()) {
    norm(read, t.rows, dim_, scratch.rows);
    read = scratch.rows;
  }
  clock.lap(Stage::layer_norm);
  MixingRows<T> rows = rows_of(layer, t, scratch);
  if (!layers_[layer].manner.wants_all_queries) rows.queried = t.rows_before(queries_of(layer));
  const LinearInput<T> normalised =
      input(block.key_value, read, t.rows, scratch, layer, &BlockRanges::qkv);
  apply(block.key_value, normalised, t.rows, rows.keys, rows.stride, Epilogue::store);
  apply(block.query, normalised, rows.queried, rows.queries, rows.query_stride, Epilogue::store);
  clock.lap(Stage::qkv);
  absorb(layer, rows, thread, clock);
}

template <class T>
void StreamingExecutor<T>::absorb(std::size_t layer, MixingRows<T> rows, int thread,
                                  StageClock& clock) {
  if (const RotationTable& rotation = geometry_.layers[layer].rotation; !rotation.empty()) {
    geometry_.for_each_run(
        rows.tile.first, rows.tile.rows,
        [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
          rotation.turn(rows.keys + row * rows.stride, rows.stride, net_.num_heads, patch, count);
          rotation.turn(rows.queries + row * rows.query_stride, rows.query_stride, net_.num_heads,
                        patch, std::clamp<std::int64_t>(rows.queried - row, 0, count));
        });
    clock.lap(Stage::qkv);
  }
  layers_[layer].mixing->absorb(rows, layers_[layer].memory, thread);
  clock.lap(Stage::attention);
}

template <class T>
void StreamingExecutor<T>::mix(std::size_t layer, const Tile& t, std::int64_t group, int thread,
                               T* mixed) {
  const Layer& of_layer = layers_[layer];
  MixingRows<T> rows = rows_of(layer, t, scratch_of(thread));
  const kernels::device::Share heads =
      kernels::device::share_of(net_.num_heads, of_layer.head_groups, group);
  rows.first_head = heads.first;
  rows.num_heads = heads.end - heads.first;
  of_layer.mixing->mix(rows, of_layer.memory, thread, mixed);
}

template <class T>
void StreamingExecutor<T>::finish_block(std::size_t layer, const Tile& t, int thread,
                                        StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  const Layer& of_layer = layers_[layer];
  Scratch& scratch = scratch_of(thread);
  T* x = tokens(t);
  const T* mixed = scratch.rows;
  if (of_layer.manner.mixes_all_at_once)
    mixed = mixed_.data() + row(t) * dim_;
  else
    mix(layer, t, 0, thread, scratch.rows);
  if (net_.normed_mixed) {
    norm(mixed, t.rows, dim_, scratch.rows);
    mixed = scratch.rows;
  }
  clock.lap(Stage::attention);
  if (t.rows == 0) return;
  add_branch(block.proj, block.norm1,
             input(block.proj, mixed, t.rows, scratch, layer, &BlockRanges::proj), t.rows,
             scratch.wide, x);
  clock.lap(Stage::proj);
  const T* read = x;
  if (block.norm2.empty()) {
    norm(x, t.rows, dim_, scratch.rows);
    read = scratch.rows;
  }
  clock.lap(Stage::layer_norm);
  apply(block.fc1, input(block.fc1, read, t.rows, scratch, layer, &BlockRanges::fc1), t.rows,
        scratch.wide, block.fc1.out(),
        net_.gated_mlp || net_.gelu ? Epilogue::store : Epilogue::gelu);
  activate(t.rows, scratch.wide);
  add_branch(block.fc2, block.norm2,
             input(block.fc2, scratch.wide, t.rows, scratch, layer, &BlockRanges::fc2), t.rows,
             scratch.rows, x);
  if (layer + 1 < net_.blocks.size()) add_positions(layer + 1, t);
  clock.lap(Stage::mlp);
}

template <class T>
void StreamingExecutor<T>::activate(std::int64_t rows, T* hidden) const {
  if (net_.gelu)
    kernels::gelu::sigmoid_gelu(
        kernels::gelu::SigmoidGeluParams<T>{hidden, rows * net_.hidden_dim, *net_.gelu, hidden});
  if (net_.gated_mlp)
    swiglu::swiglu(swiglu::SwigluParams<T>{hidden, rows, net_.hidden_dim, hidden});
  if (net_.normed_mlp) norm(hidden, rows, net_.hidden_dim, hidden);
}

/// x += of_branch(last(input)), or x += last(input) without a norm. `room` is for `rows` tokens.
template <class T>
void StreamingExecutor<T>::add_branch(const PackedLinear& last, const PackedNorm& of_branch,
                                      const LinearInput<T>& input, std::int64_t rows, T* room,
                                      T* x) const {
  if (of_branch.empty()) return apply(last, input, rows, x, dim_, Epilogue::add);
  apply(last, input, rows, room, dim_, Epilogue::store);
  norm(of_branch, rows, room);
  add(room, rows * dim_, x);
}

/// Adds the block's own table of positions to the patches that enter it.
template <class T>
void StreamingExecutor<T>::add_positions(std::size_t layer, const Tile& t) {
  const kernels::AlignedBuffer<float>& table = geometry_.layers[layer].position;
  if (table.empty()) return;
  const std::int64_t prefix = t.rows_before(net_.num_prefix);
  T* x = tokens(t) + prefix * dim_;
  const float* position = table.data() + (t.first + prefix - net_.num_prefix) * dim_;
  add(position, (t.rows - prefix) * dim_, x);
}

template <class T>
void StreamingExecutor<T>::enter(std::size_t layer, std::int64_t count, StageTimes* times) {
  if (count != cut_images_) cut_products(count);
  if (splits_all_) return project_split(layer, count, num_tokens_, times);
  run_tiles(count, 0, extent_.num_tiles(), 1, [&](const Tile& t, std::int64_t, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    if (!projects_late(layer, t)) project(layer, t, thread, clock);
  });
}

/// Takes the prefix through the block behind its patches, and into the next one if the pass goes on there.
template <class T>
void StreamingExecutor<T>::run_prefix(std::size_t layer, std::int64_t count, bool goes_on,
                                      StageTimes* times) {
  const std::int64_t live = net_.num_prefix;
  const std::int64_t tiles = extent_.tiles_before(live);
  run_tiles(count, 0, tiles, 1, [&](const Tile& t, std::int64_t group, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    mix(layer, t, group, thread, split_mixed_.data() + (t.image * live + t.first) * dim_);
    clock.lap(Stage::attention);
  });
  finish_split(layer, count, live, times);
  if (!goes_on) return;
  if (layers_[layer + 1].manner.rows != MixingManner::Rows::passing)
    return project_split(layer + 1, count, live, times);
  run_tiles(count, 0, tiles, 1, [&](const Tile& t, std::int64_t, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    project(layer + 1, t, thread, clock);
  });
}

template <class T>
std::int64_t StreamingExecutor<T>::run_blocks(std::size_t first, std::size_t end,
                                              std::int64_t count, float* logits,
                                              const ExitRecord* exits, const Observers& observers,
                                              StageTimes* times) {
  std::int64_t staying = count;
  for (std::size_t layer = first; layer < end && staying > 0; ++layer) {
    const bool has_exit =
        exits != nullptr &&
        std::ranges::binary_search(net_.exits.layers, static_cast<std::int64_t>(layer));
    // Tokens without a query in the last layer are done.
    const std::int64_t live = queries_of(layer);
    layers_[layer].mixing->combine(
        {staying, live > net_.num_prefix, team_, times, observers.goes_on}, layers_[layer].memory);
    const bool split = is_split(layer);
    const auto block = [&](Tile t, std::int64_t group, int thread) {
      StageClock clock(times != nullptr ? times + thread : nullptr);
      if (projects_late(layer, t)) project(layer, t, thread, clock);
      t.rows = t.rows_before(live);
      if (split) {
        mix(layer, t, group, thread,
            split_mixed_.data() + (t.image * live + std::min(t.first, live)) * dim_);
        clock.lap(Stage::attention);
        return;
      }
      finish_block(layer, t, thread, clock);
      note_tokens(layer + 1, t);
      if (layer + 1 < end && !has_exit && !projects_late(layer + 1, t))
        project(layer + 1, t, thread, clock);
    };
    const auto run_block = [&](std::int64_t from, std::int64_t to) {
      run_tiles(staying, from, to, layers_[layer].head_groups, block);
    };
    if (split && layers_[layer].manner.mixes_all_at_once) {
      // `combine` has mixed.
    } else if (layers_[layer].manner.prefix_last) {
      const std::int64_t prefix_tiles = extent_.tiles_before(net_.num_prefix);
      run_block(prefix_tiles, extent_.num_tiles());
      if (splits_prefix(layer))
        run_prefix(layer, staying, layer + 1 < end && !has_exit, times);
      else
        run_block(0, prefix_tiles);
    } else {
      run_block(0, extent_.tiles_before(live));
    }
    if (split) {
      finish_split(layer, staying, live, times);
      if (layer + 1 < end && !has_exit) project_split(layer + 1, staying, num_tokens_, times);
    }
    if (observers.block_done != nullptr)
      (*observers.block_done)(static_cast<std::int64_t>(layer) + 1);
    if (!has_exit) continue;
    staying = leave(layer, staying, *exits, logits, times);
    enter(layer + 1, staying, times);
  }
  return staying;
}

template <class T>
void StreamingExecutor<T>::answer(std::int64_t count, bool in_places, float* logits,
                                  StageTimes* times) {
  const auto rows_of_image = [&](std::int64_t place) { return pooled_.data() + place * 2 * dim_; };
  team_.run(count, [&](std::int64_t place, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    pool(net_, tokens({place, 0, 0, 0}), num_tokens_, scratch_of(thread).token,
         rows_of_image(place));
    clock.lap(Stage::head);
  });
  const ProductCut cut(count, kernels::linear::panels_of(net_.num_classes), team_.size(), 1);
  team_.run(cut.count(), [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    const ProductCut::Part part = cut.part(item);
    for (std::int64_t place = part.first_row; place < part.first_row + part.rows; ++place) {
      const std::int64_t image = in_places ? images_[static_cast<std::size_t>(place)] : place;
      classify(net_, rows_of_image(place), part.outputs(), logits + image * net_.num_classes);
    }
    clock.lap(Stage::head);
  });
}

template <class T>
void StreamingExecutor<T>::run(const float* images, std::int64_t count, float* logits,
                               const Observers& observers) {
  trace_ = observers.trace;
  times_.assign(times_.size(), {});
  StageTimes* const times = observers.times != nullptr ? times_.data() : nullptr;
  const auto clock_of = [&](int thread) {
    return StageClock(times != nullptr ? times + thread : nullptr);
  };
  if (observers.ranges != nullptr) {
    for (Scratch& scratch : scratch_) scratch.ranges.assign(net_.blocks.size(), {});
  }
  if (geometry_.grid.num_overview() > 0) {
    StageClock clock = clock_of(0);
    make_overviews(images, count);
    clock.lap(Stage::patch_embed);
  }
  const bool is_trace = trace_ != nullptr && trace_->is_all;
  const std::size_t depth =
      is_trace ? static_cast<std::size_t>(trace_->layers.back()) : net_.blocks.size();
  if (count != cut_images_) cut_products(count);
  if (splits_all_) {
    start_split(images, count, times);
    if (depth > 0) project_split(0, count, num_tokens_, times);
  } else {
    run_tiles(count, 0, extent_.num_tiles(), 1, [&](const Tile& t, std::int64_t, int thread) {
      StageClock clock = clock_of(thread);
      embed(images, t, scratch_of(thread));
      if (!net_.norm_pre.empty()) norm(net_.norm_pre, t.rows, tokens(t));
      note_tokens(0, t);
      clock.lap(Stage::patch_embed);
      if (depth > 0 && !projects_late(0, t)) project(0, t, thread, clock);
    });
  }
  const ExitRecord* const exits = net_.exits.layers.empty() ? nullptr : observers.exits;
  std::iota(images_.begin(), images_.end(), 0);
  if (exits != nullptr && exits->layers != nullptr)
    std::fill_n(exits->layers, count, static_cast<std::int64_t>(depth) - 1);
  const std::int64_t staying = run_blocks(0, depth, count, logits, exits, observers, times);
  if (!is_trace && net_.num_classes > 0) answer(staying, exits != nullptr, logits, times);
  if (times != nullptr) {
    for (const StageTimes& of_thread : times_) observers.times->add(of_thread);
  }
  if (observers.ranges != nullptr) {
    observers.ranges->resize(net_.blocks.size());
    for (Scratch& scratch : scratch_) {
      raise(*observers.ranges, scratch.ranges);
      scratch.ranges.clear();
    }
  }
}

// Also called by split_layers.cpp.
#define HYDRASCOPE_EXECUTOR(T)                                                                     \
  template MixingRows<T> StreamingExecutor<T>::rows_of(std::size_t, const Tile&, const Scratch&);  \
  template LinearInput<T> StreamingExecutor<T>::input(                                             \
      const PackedLinear&, const T*, std::int64_t, std::int64_t, Scratch&, std::size_t, RangeSite) \
      const;                                                                                       \
  template void StreamingExecutor<T>::norm(const T*, std::int64_t, std::int64_t, std::int64_t, T*) \
      const;                                                                                       \
  template void StreamingExecutor<T>::norm(const PackedNorm&, std::int64_t, T*) const;             \
  template void StreamingExecutor<T>::note_tokens(std::size_t, const Tile&);                       \
  template void StreamingExecutor<T>::absorb(std::size_t, MixingRows<T>, int, StageClock&);        \
  template void StreamingExecutor<T>::activate(std::int64_t, T*) const;                            \
  template void StreamingExecutor<T>::add_positions(std::size_t, const Tile&);                     \
  template void StreamingExecutor<T>::run(const float*, std::int64_t, float*, const Observers&);
HYDRASCOPE_EXECUTOR(float)
HYDRASCOPE_EXECUTOR(kernels::BFloat16)
#undef HYDRASCOPE_EXECUTOR

AnyExecutor make_executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                          kernels::device::ThreadTeam& team, const ExecutionOptions& options) {
  if (network.storage == kernels::Storage::float32)
    return std::make_unique<StreamingExecutor<float>>(network, std::move(geometry), batch, team,
                                                      options);
  return std::make_unique<StreamingExecutor<kernels::BFloat16>>(network, std::move(geometry), batch,
                                                                team, options);
}

}  // namespace hydrascope::model::inference
