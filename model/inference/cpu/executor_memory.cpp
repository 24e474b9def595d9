// The plan of an executor's memory: the tiles, the mixings' rooms, and each thread's scratch.
#include "kernels/amx/tile_product.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/matrix_instructions.h"
#include "model/inference/cpu/classification_head.h"
#include "model/inference/cpu/exit_branch.h"
#include "model/inference/cpu/streaming_executor.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hydrascope::model::inference {

template <class T>
StreamingExecutor<T>::StreamingExecutor(const PackedNetwork& network, ImageGeometry geometry,
                                        std::int64_t batch, kernels::device::ThreadTeam& team,
                                        const ExecutionOptions& options)
    : net_(network),
      geometry_(std::move(geometry)),
      batch_(batch),
      team_(team),
      dim_(network.embed_dim),
      num_tokens_(geometry_.grid.num_tokens()),
      query_stride_(dim_),
      times_(static_cast<std::size_t>(team.size())) {
  std::int64_t widest = std::max(net_.hidden_dim, net_.patch_dim());
  bool quantised = false;
  for (std::size_t index = 0; index < net_.blocks.size(); ++index) {
    const PackedBlock& block = net_.blocks[index];
    query_stride_ = std::max(query_stride_, block.query_width());
    widest = std::max({widest, block.key_value.out(), block.fc1.out()});
    if (!block.norm1.empty()) widest = std::max(widest, dim_);
    quantised = quantised || block.key_value.is_quantised();
    Mixing<T>* const mixing =
        std::get<std::unique_ptr<Mixing<T>>>(geometry_.layers[index].mixing).get();
    layers_.push_back({mixing, mixing->manner(), {}, {}});
  }
  extent_ = cut(widest, quantised, options.fixed_tiles ? 1 : batch,
                options.fixed_tiles ? 1 : team.size());
  plan_splits(widest, quantised, options);
  for (Layer& layer : layers_) layer.room = layer.mixing->plan(extent_);

  const auto rows = static_cast<std::size_t>(batch * num_tokens_);
  x_ = Buffer<T>(rows * static_cast<std::size_t>(dim_));
  q_ = Buffer<T>(rows * static_cast<std::size_t>(query_stride_));
  pooled_ = Buffer<float>(static_cast<std::size_t>(batch * 2 * dim_));
  position_ = Buffer<T>(geometry_.position.size());
  std::transform(geometry_.position.begin(), geometry_.position.end(), position_.begin(),
                 [](float value) { return T(value); });
  geometry_.position = {};
  if (geometry_.grid.num_overview() > 0 && options.takes_images) plan_overview();
  const typename MixingMemory<T>::Pieces of_threads = plan_scratch(widest, quantised);
  plan_mixings();
  for (Layer& layer : layers_) layer.memory.threads = of_threads;
  if (net_.exits.layers.empty() || !options.takes_images) return;
  const auto images = static_cast<std::size_t>(batch);
  exit_logits_ = Buffer<float>(images * static_cast<std::size_t>(net_.num_classes));
  for (Buffer<float>& features : exit_features_)
    features = Buffer<float>(images * static_cast<std::size_t>(dim_));
  exit_stops_ = Buffer<float>(images);
  exit_scores_.resize(images);
  images_.resize(images);
  if (geometry_.coarse == nullptr) return;
  ExecutionOptions of_tokens = options;
  of_tokens.takes_images = false;
  coarse_ = std::make_unique<StreamingExecutor>(net_, std::move(*geometry_.coarse), batch, team,
                                                of_tokens);
  places_.resize(static_cast<std::size_t>(geometry_.grid.num_image_tokens()));
  for (const TokenOrder::Run& run : geometry_.order.runs)
    std::iota(places_.begin() + run.patch, places_.begin() + run.patch + run.count,
              net_.num_prefix + run.token);
}

template <class T>
void StreamingExecutor<T>::plan_splits(std::int64_t widest, bool quantised,
                                       const ExecutionOptions& options) {
  part_unit_ = uses_amx(quantised) ? kernels::amx::kGroupRows : kStripRows;
  splits_all_ = options.splits.value_or(team_.size() > 1 && is_sooner_split(extent_));
  splits_last_ = !net_.blocks.empty() && queries_of(net_.blocks.size() - 1) < num_tokens_;
  // With tiles of their own size products are cut all the same.
  if (splits_all_ && !options.fixed_tiles) extent_ = cut(widest, quantised, batch_, team_.size());
  if (splits_all_) tiles_hold_windows_ = false;
  const std::int64_t prefix_tiles = extent_.tiles_before(net_.num_prefix);
  const bool prefix_pays = options.splits.value_or(team_.size() > 1) && is_prefix_sooner_split();
  splits_prefix_ = !splits_all_ && net_.num_prefix > 0 &&
                   options.splits_prefix.value_or(prefix_pays) &&
                   extent_.borders[static_cast<std::size_t>(prefix_tiles)] == net_.num_prefix;
  cuts_.resize(net_.blocks.size());
  cut_products(batch_);
  std::int64_t live = 0;
  std::int64_t wide = 0;
  bool branch_norms = false;
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    if (!is_split(index) && !splits_prefix(index)) continue;
    const PackedBlock& block = net_.blocks[index];
    Layer& layer = layers_[index];
    live = std::max(live, is_split(index) ? queries_of(index) : net_.num_prefix);
    wide = std::max(wide, block.fc1.out());
    branch_norms = branch_norms || !block.norm1.empty();
    // A tile that is projected late is projected once, for all heads.
    if (is_split(index) && layer.manner.heads_apart && !tiles_hold_windows_)
      layer.head_groups = head_groups(batch_ * extent_.tiles_before(queries_of(index)),
                                      net_.num_heads, team_.size());
  }
  const auto rows = static_cast<std::size_t>(batch_ * live);
  split_mixed_ = Buffer<T>(rows * static_cast<std::size_t>(dim_));
  split_hidden_ = Buffer<T>(rows * static_cast<std::size_t>(wide));
  if (branch_norms) split_branch_ = Buffer<T>(rows * static_cast<std::size_t>(dim_));
}

template <class T>
bool StreamingExecutor<T>::uses_amx(bool quantised) {
  using kernels::device::MatrixInstruction;
  if (quantised) return kernels::device::may_use(MatrixInstruction::amx_int8);
  return sizeof(T) == 2 && kernels::device::may_use(MatrixInstruction::amx_bf16);
}

template <class T>
Extent StreamingExecutor<T>::cut(std::int64_t widest, bool quantised, std::int64_t batch,
                                 int threads) {
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(sizeof(T)) * (2 * dim_ + widest) + (quantised ? widest : 0);
  const std::int64_t l2_bytes = kernels::device::cache_sizes().l2_bytes;
  const bool by_heads = splits_all_ && std::ranges::all_of(layers_, [](const Layer& layer) {
                          return layer.manner.heads_apart || layer.manner.mixes_all_at_once;
                        });
  const auto shape = [&](std::int64_t count) {
    if (by_heads) return choose_tiles_of_heads(count, batch, net_.num_heads, threads);
    return choose_tiles(count, batch, row_bytes, l2_bytes, threads,
                        uses_amx(quantised) ? kMatrixTileRows : kStripRows);
  };
  if (!net_.window) return {num_tokens_, even_borders(num_tokens_, shape(num_tokens_))};
  const bool even =
      std::ranges::any_of(layers_, [](const Layer& layer) { return layer.manner.even_tiles; });
  // The prefix waits for all other tiles.
  const std::int64_t first =
      std::min(num_tokens_, even ? (net_.num_prefix + 1) / 2 * 2 : net_.num_prefix);
  const TileShape patches = shape(num_tokens_ - first);
  const std::vector<std::int64_t>& windows = geometry_.order.windows;
  const Borders tiles =
      even ? even_borders(num_tokens_ - first, patches)
           : window_borders(
                 windows, patches, batch,
                 by_heads ? static_cast<int>(divide_up(threads, net_.num_heads)) : threads);
  tiles_hold_windows_ = first == net_.num_prefix && std::ranges::includes(windows, tiles);
  Extent whole{num_tokens_, Borders(first > 0 ? 1 : 0, 0)};
  for (const std::int64_t border : tiles) whole.borders.push_back(first + border);
  return whole;
}

template <class T>
void StreamingExecutor<T>::plan_mixings() {
  using Rows = MixingManner::Rows;
  const auto images = static_cast<std::size_t>(batch_);
  const auto tiles = images * static_cast<std::size_t>(extent_.num_tiles());
  const std::size_t rows = images * static_cast<std::size_t>(num_tokens_);
  // Rows that are read while tiles are mixed lie beside the next layer's rows.
  const bool in_turns = std::ranges::any_of(
      layers_, [](const Layer& layer) { return layer.manner.rows == Rows::until_mixed; });
  MixingRoom most;
  std::size_t kept[2] = {};
  bool all_at_once = false;
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    Layer& layer = layers_[index];
    layer.room.image = padded(layer.room.image);
    layer.room.keys = padded(layer.room.keys);
    most.tile = std::max(most.tile, layer.room.tile);
    most.image = std::max(most.image, layer.room.image);
    most.keys = std::max(most.keys, layer.room.keys);
    all_at_once = all_at_once || layer.manner.mixes_all_at_once;
    std::size_t& width = kept[in_turns ? index % 2 : 0];
    if (layer.manner.rows != Rows::passing || splits_all_)
      width = std::max(width, static_cast<std::size_t>(net_.blocks[index].key_value.out()));
  }
  tile_memory_ = Buffer<std::byte>(tiles * most.tile);
  image_memory_ = Buffer<std::byte>(images * most.image);
  for (int parity = 0; parity < 2; ++parity) {
    key_memory_[parity] = Buffer<std::byte>(images * most.keys);
    kept_rows_[parity] = Buffer<T>(rows * kept[parity]);
  }
  if (all_at_once) mixed_ = Buffer<T>(x_.size());
  std::size_t of_video = 0;
  for (const Layer& layer : layers_) of_video += padded(layer.room.video);
  video_memory_ = Buffer<std::byte>(of_video);
  std::byte* video = video_memory_.data();
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    const PackedBlock& block = net_.blocks[index];
    const MixingRoom& room = layers_[index].room;
    MixingMemory<T>& memory = layers_[index].memory;
    memory.tiles = {tile_memory_.data(), room.tile};
    memory.tiles_per_image = extent_.num_tiles();
    memory.images = {image_memory_.data(), room.image};
    memory.keys = {key_memory_[index % 2].data(), room.keys};
    memory.video = std::exchange(video, video + padded(room.video));
    T* const keys = kept_rows_[in_turns ? index % 2 : 0].data();
    memory.kept = {{0, 0, 0, num_tokens_}, num_tokens_, q_.data(),
                   query_stride_,          keys,        keys + block.key_width(dim_),
                   block.key_value.out()};
    memory.mixed = mixed_.data();
    memory.num_tokens = num_tokens_;
    memory.dim = dim_;
  }
}

template <class T>
void StreamingExecutor<T>::plan_overview() {
  const TokenGrid& grid = geometry_.grid;
  const std::int64_t size = net_.patch_size;
  overview_rows_ = kernels::resize::bicubic_taps(grid.rows * size, grid.overview_rows * size);
  overview_columns_ =
      kernels::resize::bicubic_taps(grid.columns * size, grid.overview_columns * size);
  overview_ =
      Buffer<float>(static_cast<std::size_t>(batch_ * grid.num_overview() * net_.patch_dim()));
}

template <class T>
typename MixingMemory<T>::Pieces StreamingExecutor<T>::plan_scratch(std::int64_t widest,
                                                                    bool quantised) {
  std::size_t mixing_bytes = 0;
  for (const Layer& layer : layers_)
    mixing_bytes = std::max(mixing_bytes, padded(layer.room.thread));
  const auto rows = static_cast<std::size_t>(
      std::max(extent_.most_rows(), splits_all_ || splits_last_ || splits_prefix_
                                        ? std::min(kMostPartRows, batch_ * num_tokens_)
                                        : 0));
  const auto dim = static_cast<std::size_t>(dim_);
  const std::size_t rows_bytes = padded(rows * dim * sizeof(T));
  const std::size_t wide_bytes = padded(rows * static_cast<std::size_t>(widest) * sizeof(T));
  const std::size_t query_bytes =
      tiles_hold_windows_ ? padded(rows * static_cast<std::size_t>(query_stride_) * sizeof(T)) : 0;
  const std::size_t token_bytes = padded(head_room(net_) * sizeof(float));
  const std::size_t exit_bytes = padded(exit_room(net_, num_tokens_) * sizeof(float));
  const std::size_t overview_bytes = padded(
      static_cast<std::size_t>(kernels::resize::scratch_floats(overview_columns_)) * sizeof(float));
  const auto integers = static_cast<std::size_t>(kernels::quantised_linear::row_bytes(widest));
  const std::size_t integer_bytes = quantised ? padded(rows * integers) : 0;
  const std::size_t scale_bytes = quantised ? padded(rows * sizeof(float)) : 0;
  const std::size_t thread_bytes = rows_bytes + wide_bytes + query_bytes + token_bytes +
                                   overview_bytes + exit_bytes + integer_bytes + 2 * scale_bytes +
                                   mixing_bytes;
  scratch_memory_ = Buffer<std::byte>(thread_bytes * times_.size());
  std::byte* memory = scratch_memory_.data();
  const auto take = [&memory](std::size_t bytes) { return std::exchange(memory, memory + bytes); };
  std::byte* const of_first_thread = take(mixing_bytes);
  for (int thread = 0; thread < team_.size(); ++thread) {
    if (thread > 0) take(mixing_bytes);
    Scratch s{};
    s.rows = reinterpret_cast<T*>(take(rows_bytes));
    s.wide = reinterpret_cast<T*>(take(wide_bytes));
    s.queries = reinterpret_cast<T*>(take(query_bytes));
    s.token = reinterpret_cast<float*>(take(token_bytes));
    s.overview = reinterpret_cast<float*>(take(overview_bytes));
    s.exit = reinterpret_cast<float*>(take(exit_bytes));
    s.quantised.values = reinterpret_cast<std::uint8_t*>(take(integer_bytes));
    s.quantised.scale = reinterpret_cast<float*>(take(scale_bytes));
    s.quantised.least = reinterpret_cast<float*>(take(scale_bytes));
    scratch_.push_back(std::move(s));
  }
  return {of_first_thread, thread_bytes};
}

template StreamingExecutor<float>::StreamingExecutor(const PackedNetwork&, ImageGeometry,
                                                     std::int64_t, kernels::device::ThreadTeam&,
                                                     const ExecutionOptions&);
template StreamingExecutor<kernels::BFloat16>::StreamingExecutor(const PackedNetwork&,
                                                                 ImageGeometry, std::int64_t,
                                                                 kernels::device::ThreadTeam&,
                                                                 const ExecutionOptions&);

}  // namespace hydrascope::model::inference
