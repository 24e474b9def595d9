// Layers whose products are cut by outputs: one product after the other, each on all threads.
#include "kernels/swiglu/swiglu.h"
#include "model/inference/cpu/streaming_executor.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hydrascope::model::inference {

using kernels::linear::Epilogue;
using kernels::linear::Outputs;
using kernels::linear::panels_of;

namespace {

/// The outputs, in panels, and the inputs of a block's products.
std::array<std::pair<std::int64_t, std::int64_t>, 4> products_of(const PackedBlock& block,
                                                                 std::int64_t dim) {
  return {{{panels_of(block.key_value.out()) + panels_of(block.query.out()), dim},
           {panels_of(dim), dim},
           {panels_of(block.fc1.out()), dim},
           {panels_of(dim), block.fc2.in()}}};
}

}  // namespace

template <class T>
bool StreamingExecutor<T>::is_sooner_split(const Extent& tiles) const {
  const double of_tiles = time_of_tiles(tiles.borders, batch_, team_.size());
  CutTimes times;
  for (const PackedBlock& block : net_.blocks)
    times.add_block(products_of(block, dim_), dim_, of_tiles, [&](std::int64_t panels) {
      return ProductCut(batch_ * num_tokens_, panels, team_.size(), part_unit_).time();
    });
  return times.is_sooner_cut();
}

template <class T>
bool StreamingExecutor<T>::is_prefix_sooner_split() const {
  // A thread takes an image's prefix; cut, there is a product for each prefix token of all images.
  const auto of_tiles =
      static_cast<double>(divide_up(batch_, team_.size()) * (net_.num_prefix + kWeightRows));
  CutTimes times;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (!layers_[layer].manner.prefix_last) continue;
    times.add_block(products_of(net_.blocks[layer], dim_), dim_, of_tiles,
                    [&](std::int64_t panels) {
                      return static_cast<double>(net_.num_prefix) *
                             ProductCut(batch_, panels, team_.size(), 1).time();
                    });
  }
  return times.is_sooner_cut();
}

template <class T>
void StreamingExecutor<T>::cut_products(std::int64_t images) {
  cut_images_ = images;
  for (std::size_t layer = 0; layer < net_.blocks.size(); ++layer) {
    const PackedBlock& block = net_.blocks[layer];
    const auto cut_of = [&](std::int64_t panels, std::int64_t tokens) {
      const std::int64_t rows = tokens == num_tokens_ ? images * tokens : images;
      return ProductCut(rows, panels, team_.size(), part_unit_);
    };
    Cuts& cuts = cuts_[layer];
    if (is_split(layer) || splits_prefix(layer)) {
      const std::int64_t live = is_split(layer) ? queries_of(layer) : net_.num_prefix;
      cuts.proj = cut_of(panels_of(dim_), live);
      cuts.fc1 = cut_of(panels_of(block.fc1.out()), live);
      cuts.fc2 = cuts.proj;
      cuts.rows = cut_of(1, live);
    }
    if (!splits_all_ && !splits_prefix_) continue;
    const std::int64_t live = splits_all_ ? num_tokens_ : net_.num_prefix;
    const std::int64_t queried = queried_of(layer, live);
    const std::int64_t keys = panels_of(block.key_value.out());
    const std::int64_t queries = panels_of(block.query.out());
    const bool together = queried == live;
    cuts.qkv = cut_of(keys + (together ? queries : 0), live);
    cuts.query = together ? ProductCut() : cut_of(queries, queried);
  }
}

template <class T>
typename StreamingExecutor<T>::Part StreamingExecutor<T>::part_of(const ProductCut& cut,
                                                                  std::int64_t item,
                                                                  std::int64_t live) const {
  const ProductCut::Part part = cut.part(item % cut.count());
  const std::int64_t set = item / cut.count();
  if (live == num_tokens_) return {part.first_row, 1, part.first_row, 1, part.rows, part};
  return {part.first_row * num_tokens_ + set,
          num_tokens_,
          part.first_row * live + set,
          live,
          part.rows,
          part};
}

template <class T>
template <class Work>
void StreamingExecutor<T>::run_parts(const ProductCut& cut, std::int64_t live, Stage stage,
                                     StageTimes* times, const Work& work) {
  team_.run(sets_of(live) * cut.count(), [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    work(part_of(cut, item, live), scratch_of(thread));
    clock.lap(stage);
  });
}

template <class T>
void StreamingExecutor<T>::start_split(const float* images, std::int64_t count, StageTimes* times) {
  const bool normed = !net_.patch_norm.empty() || !net_.norm_pre.empty();
  const ProductCut cut(num_tokens_, normed ? 1 : panels_of(dim_), team_.size(), part_unit_);
  team_.run(count * cut.count(), [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    const ProductCut::Part part = cut.part(item % cut.count());
    const Tile rows{item / cut.count(), 0, part.first_row, part.rows};
    embed(images, rows, scratch_of(thread), normed ? Outputs{} : part.outputs());
    if (!net_.norm_pre.empty()) norm(net_.norm_pre, rows.rows, tokens(rows));
    clock.lap(Stage::patch_embed);
  });
  if (trace_ == nullptr) return;
  run_tiles(count, 0, extent_.num_tiles(), 1,
            [&](const Tile& t, std::int64_t, int) { note_tokens(0, t); });
}

template <class T>
void StreamingExecutor<T>::project_split(std::size_t layer, std::int64_t count, std::int64_t live,
                                         StageTimes* times) {
  const PackedBlock& block = net_.blocks[layer];
  const Layer& of_layer = layers_[layer];
  const Cuts& cuts = cuts_[layer];
  const std::int64_t queried = queried_of(layer, live);
  const bool together = cuts.query.count() == 0;
  const std::int64_t key_panels = panels_of(block.key_value.out());
  const std::int64_t key_stride = block.key_value.out();
  const auto normalised = [&](const Part& part, Scratch& scratch) {
    const T* read = x_.data() + part.row * dim_;
    std::int64_t stride = part.apart * dim_;
    if (block.norm1.empty()) {
      norm(read, stride, part.rows, dim_, scratch.rows);
      read = scratch.rows;
      stride = dim_;
    }
    return input(block.key_value, read, stride, part.rows, scratch, layer, &BlockRanges::qkv);
  };
  const auto to_queries = [&](const LinearInput<T>& read, const Part& part,
                              const Outputs& outputs) {
    apply(block.query, read, part.rows, q_.data() + part.row * query_stride_,
          part.apart * query_stride_, Epilogue::store, outputs);
  };
  const std::int64_t key_parts = sets_of(live) * cuts.qkv.count();
  const std::int64_t query_parts = together ? 0 : sets_of(queried) * cuts.query.count();
  team_.run(key_parts + query_parts, [&](std::int64_t item, int thread) {
    StageClock clock(times != nullptr ? times + thread : nullptr);
    Scratch& scratch = scratch_of(thread);
    if (item < key_parts) {
      const Part part = part_of(cuts.qkv, item, live);
      const LinearInput<T> read = normalised(part, scratch);
      apply(block.key_value, read, part.rows, of_layer.memory.kept.keys + part.row * key_stride,
            part.apart * key_stride, Epilogue::store, part.outputs.outputs());
      if (together) to_queries(read, part, part.outputs.outputs(key_panels));
    } else {
      const Part part = part_of(cuts.query, item - key_parts, queried);
      to_queries(normalised(part, scratch), part, part.outputs.outputs());
    }
    clock.lap(Stage::qkv);
  });
  // A row is turned once, for all heads.
  const bool turns = !geometry_.layers[layer].rotation.empty();
  const std::int64_t groups = turns ? 1 : of_layer.head_groups;
  run_tiles(count, 0, extent_.tiles_before(live), groups,
            [&](const Tile& t, std::int64_t group, int thread) {
              StageClock clock(times != nullptr ? times + thread : nullptr);
              MixingRows<T> rows = rows_of(layer, t, scratch_of(thread));
              if (!of_layer.manner.wants_all_queries)
                rows.queried = t.rows_before(queries_of(layer));
              const kernels::device::Share heads =
                  kernels::device::share_of(net_.num_heads, groups, group);
              rows.first_head = heads.first;
              rows.num_heads = heads.end - heads.first;
              absorb(layer, rows, thread, clock);
            });
}

template <class T>
void StreamingExecutor<T>::add_split(const PackedLinear& last, const PackedNorm& of_branch,
                                     const LinearInput<T>& input, const Part& part) {
  if (of_branch.empty())
    apply(last, input, part.rows, x_.data() + part.row * dim_, part.apart * dim_, Epilogue::add,
          part.outputs.outputs());
  else
    apply(last, input, part.rows, split_branch_.data() + part.live_row * dim_,
          part.live_apart * dim_, Epilogue::store, part.outputs.outputs());
}

template <class T>
void StreamingExecutor<T>::join_branch(const PackedNorm& of_branch, const ProductCut& rows,
                                       std::int64_t live, Stage stage, StageTimes* times) {
  if (of_branch.empty()) return;
  run_parts(rows, live, stage, times, [&](const Part& part, Scratch&) {
    for (std::int64_t row = 0; row < part.rows; ++row) {
      T* const x = x_.data() + (part.row + row * part.apart) * dim_;
      T* const branch = split_branch_.data() + (part.live_row + row * part.live_apart) * dim_;
      norm(of_branch, 1, branch);
      add(branch, dim_, x);
    }
  });
}

template <class T>
void StreamingExecutor<T>::finish_split(std::size_t layer, std::int64_t count, std::int64_t live,
                                        StageTimes* times) {
  const PackedBlock& block = net_.blocks[layer];
  const Cuts& cuts = cuts_[layer];
  const std::int64_t width = block.fc1.out();
  const bool of_all = layers_[layer].manner.mixes_all_at_once;
  run_parts(cuts.proj, live, Stage::proj, times, [&](const Part& part, Scratch& scratch) {
    const T* mixed =
        of_all ? mixed_.data() + part.row * dim_ : split_mixed_.data() + part.live_row * dim_;
    std::int64_t stride = (of_all ? part.apart : part.live_apart) * dim_;
    if (net_.normed_mixed) {
      norm(mixed, stride, part.rows, dim_, scratch.rows);
      mixed = scratch.rows;
      stride = dim_;
    }
    add_split(block.proj, block.norm1,
              input(block.proj, mixed, stride, part.rows, scratch, layer, &BlockRanges::proj),
              part);
  });
  join_branch(block.norm1, cuts.rows, live, Stage::proj, times);
  const bool apart = net_.gated_mlp || net_.gelu.has_value();
  run_parts(cuts.fc1, live, Stage::mlp, times, [&](const Part& part, Scratch& scratch) {
    const T* read = x_.data() + part.row * dim_;
    std::int64_t stride = part.apart * dim_;
    if (block.norm2.empty()) {
      norm(read, stride, part.rows, dim_, scratch.rows);
      read = scratch.rows;
      stride = dim_;
    }
    apply(block.fc1, input(block.fc1, read, stride, part.rows, scratch, layer, &BlockRanges::fc1),
          part.rows, split_hidden_.data() + part.live_row * width, part.live_apart * width,
          apart ? Epilogue::store : Epilogue::gelu, part.outputs.outputs());
  });
  if (apart || net_.normed_mlp) {
    run_parts(cuts.rows, live, Stage::mlp, times, [&](const Part& part, Scratch&) {
      for (std::int64_t row = 0; row < part.rows; ++row)
        activate(1, split_hidden_.data() + (part.live_row + row * part.live_apart) * width);
    });
  }
  run_parts(cuts.fc2, live, Stage::mlp, times, [&](const Part& part, Scratch& scratch) {
    add_split(block.fc2, block.norm2,
              input(block.fc2, split_hidden_.data() + part.live_row * width,
                    part.live_apart * width, part.rows, scratch, layer, &BlockRanges::fc2),
              part);
  });
  join_branch(block.norm2, cuts.rows, live, Stage::mlp, times);
  const bool has_positions =
      layer + 1 < net_.blocks.size() && !geometry_.layers[layer + 1].position.empty();
  if (!has_positions && trace_ == nullptr) return;
  run_tiles(count, 0, extent_.tiles_before(live), 1, [&](Tile t, std::int64_t, int) {
    t.rows = t.rows_before(live);
    if (has_positions) add_positions(layer + 1, t);
    note_tokens(layer + 1, t);
  });
}

#define HYDRASCOPE_SPLIT_LAYERS(T)                                                           \
  template bool StreamingExecutor<T>::is_sooner_split(const Extent&) const;                  \
  template bool StreamingExecutor<T>::is_prefix_sooner_split() const;                        \
  template void StreamingExecutor<T>::cut_products(std::int64_t);                            \
  template void StreamingExecutor<T>::start_split(const float*, std::int64_t, StageTimes*);  \
  template void StreamingExecutor<T>::project_split(std::size_t, std::int64_t, std::int64_t, \
                                                    StageTimes*);                            \
  template void StreamingExecutor<T>::finish_split(std::size_t, std::int64_t, std::int64_t,  \
                                                   StageTimes*);
HYDRASCOPE_SPLIT_LAYERS(float)
HYDRASCOPE_SPLIT_LAYERS(kernels::BFloat16)
#undef HYDRASCOPE_SPLIT_LAYERS

}  // namespace hydrascope::model::inference
