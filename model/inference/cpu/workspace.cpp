#include "model/inference/cpu/workspace.h"

#include "kernels/device/cpu_features.h"
#include "kernels/device/matrix_instructions.h"
#include "model/inference/cpu/group_mixing.h"

namespace hydrascope::model::inference {
namespace {

namespace linear_attention = kernels::linear_attention;
namespace softmax_attention = kernels::softmax_attention;

/// Vectors of one thread start on cache lines of their own.
std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

template <class T>
Workspace<T>::Workspace(const PackedNetwork& network, const ImageGeometry& geometry,
                        std::int64_t batch, int threads, const ExecutionOptions& options)
    : net_(network),
      reads_beside_tiles_(network.window.has_value() || network.has_local_terms()),
      num_tokens(geometry.grid.num_tokens()),
      reduction(options.reduction) {
  const std::int64_t dim = net_.embed_dim;
  query_stride = dim;
  std::int64_t widest = std::max(net_.hidden_dim, net_.patch_dim());
  std::int64_t stored_width[2] = {};
  bool quantised = false;
  bool softmax = false;
  for (std::size_t layer = 0; layer < net_.blocks.size(); ++layer) {
    const PackedBlock& block = net_.blocks[layer];
    query_stride = std::max(query_stride, block.query_width());
    widest = std::max({widest, block.key_value.out(), block.fc1.out()});
    if (stores_keys(layer)) {
      std::int64_t& width = stored_width[stored_slot(layer)];
      width = std::max(width, block.key_value.out());
    }
    quantised = quantised || block.key_value.is_quantised();
    softmax = softmax || std::holds_alternative<SoftmaxLayer>(block.mixing);
  }
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(sizeof(T)) * (2 * dim + widest) + (quantised ? widest : 0);
  using kernels::device::MatrixInstruction;
  const bool by_amx = quantised
                          ? kernels::device::may_use(MatrixInstruction::amx_int8)
                          : sizeof(T) == 2 && kernels::device::may_use(MatrixInstruction::amx_bf16);
  const std::int64_t unit = by_amx ? kMatrixTileRows : kStripRows;
  const std::int64_t l2_bytes = kernels::device::cache_sizes().l2_bytes;
  const std::int64_t tiled_batch = options.fixed_tiles ? 1 : batch;
  const int tiled_threads = options.fixed_tiles ? 1 : threads;
  const auto shape = [&](std::int64_t count) {
    return choose_tiles(count, tiled_batch, row_bytes, l2_bytes, tiled_threads, unit);
  };
  const auto even = [&](std::int64_t count) {
    return Extent{count, even_borders(count, shape(count))};
  };
  whole = even(num_tokens);
  kept = reduction ? even(net_.num_prefix + reduction->patches) : whole;
  if (net_.window) {
    // The prefix waits for all other tiles. Softmax's packing wants tiles that begin at even tokens.
    const std::int64_t first =
        std::min(num_tokens, softmax ? (net_.num_prefix + 1) / 2 * 2 : net_.num_prefix);
    const TileShape patches = shape(num_tokens - first);
    const Borders tiles =
        softmax ? even_borders(num_tokens - first, patches)
                : window_borders(geometry.order.windows, patches, tiled_batch, tiled_threads);
    whole.borders.assign(first > 0 ? 1 : 0, 0);
    for (const std::int64_t border : tiles) whole.borders.push_back(first + border);
    tiles_hold_windows_ =
        first == net_.num_prefix && std::ranges::includes(geometry.order.windows, tiles);
    const std::vector<std::int64_t>& windows = geometry.order.windows;
    for (std::size_t i = 0; i + 1 < windows.size(); ++i)
      most_window_keys_ =
          std::max(most_window_keys_, net_.num_prefix + windows[i + 1] - windows[i]);
  }

  const auto images = static_cast<std::size_t>(batch);
  const std::size_t rows = images * static_cast<std::size_t>(num_tokens);
  x = Buffer<T>(rows * static_cast<std::size_t>(dim));
  q = Buffer<T>(rows * static_cast<std::size_t>(query_stride));
  position = Buffer<T>(geometry.position.size());
  std::transform(geometry.position.begin(), geometry.position.end(), position.begin(),
                 [](float value) { return T(value); });
  for (int slot = 0; slot < 2; ++slot)
    stored_keys_values[slot] = Buffer<T>(rows * static_cast<std::size_t>(stored_width[slot]));
  if (reduction) {
    scores = Buffer<float>(rows * static_cast<std::size_t>(net_.num_heads));
    class_weight = Buffer<float>(images * static_cast<std::size_t>(dim));
    heat = Buffer<float>(rows);
    order = Buffer<std::int32_t>(rows);
  }
  plan_mixing(images,
              images * static_cast<std::size_t>(std::max(whole.num_tiles(), kept.num_tiles())));
  if (net_.window || net_.has_groups()) plan_prefix_parts(geometry, images);
  if (net_.has_groups()) plan_groups(geometry, images);
  if (geometry.grid.num_overview() > 0) plan_overview(geometry.grid, images);
  plan_scratch(widest, quantised, threads);
}

template <class T>
void Workspace<T>::plan_mixing(std::size_t images, std::size_t tiles) {
  const auto dim = static_cast<std::size_t>(net_.embed_dim);
  bool hydra = false;
  bool softmax = false;
  bool beside = false;  // the tiles, not in them
  for (const PackedBlock& block : net_.blocks) {
    hydra = hydra || std::holds_alternative<HydraLayer>(block.mixing);
    softmax = softmax || std::holds_alternative<SoftmaxLayer>(block.mixing);
    beside = beside || block.has_groups() || std::holds_alternative<ModuleLayer>(block.mixing);
    if (const auto* linear = std::get_if<LinearLayer>(&block.mixing)) {
      linear_sums_stride = std::max(linear_sums_stride, linear_attention::sums_size(linear->shape));
      linear_state_stride =
          std::max(linear_state_stride, padded(linear_attention::state_bytes<T>(linear->shape)));
    }
  }
  if (hydra) {
    hydra_sums = Buffer<float>(tiles * dim);
    hydra_global = Buffer<float>(images * dim);
  }
  linear_sums = Buffer<float>(tiles * linear_sums_stride);
  linear_state = Buffer<std::byte>(images * linear_state_stride);
  if (softmax) {
    keys_stride = softmax_attention::keys_size<T>(softmax_shape(whole));
    values_stride = softmax_attention::values_size<T>(softmax_shape(whole));
    for (int parity = 0; parity < 2; ++parity) {
      keys[parity] = Buffer<T>(images * keys_stride);
      values[parity] = Buffer<T>(images * values_stride);
    }
  }
  if (beside) mixed = Buffer<T>(x.size());
}

template <class T>
void Workspace<T>::plan_groups(const ImageGeometry& geometry, std::size_t images) {
  for (const GroupedKeys& grouped : geometry.grouped) {
    most_group_queries = std::max(most_group_queries, grouped.most_queries());
    most_group_keys = std::max(most_group_keys, grouped.most_keys());
    most_passes = std::max(most_passes, grouped.passes.size());
  }
  if (most_passes > 1)
    group_sums =
        Buffer<float>((most_passes - 1) * images *
                      static_cast<std::size_t>(net_.num_heads * num_tokens * group_width()));
}

template <class T>
void Workspace<T>::plan_prefix_parts(const ImageGeometry& geometry, std::size_t images) {
  const std::int64_t behind = geometry.grid.num_prefix + geometry.grid.num_patches();
  for (std::int64_t index = 0; net_.num_prefix > 0 && index < whole.num_tiles(); ++index) {
    const Tile tile = tile_of(index, whole);
    const std::int64_t end = tile.first + tile.rows;
    for (std::int64_t first = tile.first, count = 0; first < end; first += count) {
      count = std::min(softmax_attention::kPartKeys,
                       (first < behind ? std::min(behind, end) : end) - first);
      parts.push_back({index, first, count, first >= behind});
    }
  }
  part_size = softmax_attention::part_size(net_.num_prefix, net_.num_heads,
                                           net_.embed_dim / net_.num_heads);
  prefix_sums = Buffer<float>(images * parts.size() * part_size);
}

template <class T>
void Workspace<T>::plan_overview(const TokenGrid& grid, std::size_t images) {
  const std::int64_t size = net_.patch_size;
  overview_rows = kernels::resize::bicubic_taps(grid.rows * size, grid.overview_rows * size);
  overview_columns =
      kernels::resize::bicubic_taps(grid.columns * size, grid.overview_columns * size);
  overview =
      Buffer<float>(images * static_cast<std::size_t>(grid.num_overview() * net_.patch_dim()));
}

template <class T>
void Workspace<T>::plan_scratch(std::int64_t widest, bool quantised, int threads) {
  const std::int64_t most_rows = std::max(whole.most_rows(), kept.most_rows());
  std::size_t mixing_bytes = 0;
  for (const PackedBlock& block : net_.blocks) {
    if (const auto* linear = std::get_if<LinearLayer>(&block.mixing))
      mixing_bytes =
          std::max(mixing_bytes, linear_attention::scratch_bytes<T>(linear->shape, most_rows));
    else if (std::holds_alternative<SoftmaxLayer>(block.mixing) || block.has_windows())
      mixing_bytes =
          std::max(mixing_bytes, softmax_attention::scratch_bytes<T>(softmax_shape(whole)));
  }
  std::size_t keys_bytes = 0;
  std::size_t values_bytes = 0;
  std::size_t group_bytes = 0;
  if (net_.has_groups())
    group_bytes = padded(group_scratch_bytes<T>(most_group_queries, most_group_keys, most_passes,
                                                net_.embed_dim / net_.num_heads));
  if (net_.window) {
    const softmax_attention::Shape shape = softmax_shape(most_window_keys_);
    keys_bytes = padded(softmax_attention::keys_size<T>(shape) * sizeof(T));
    values_bytes = padded(softmax_attention::values_size<T>(shape) * sizeof(T));
  }
  const auto rows = static_cast<std::size_t>(most_rows);
  const auto dim = static_cast<std::size_t>(net_.embed_dim);
  const std::size_t rows_bytes = padded(rows * dim * sizeof(T));
  const std::size_t wide_bytes = padded(rows * static_cast<std::size_t>(widest) * sizeof(T));
  const std::size_t query_bytes =
      tiles_hold_windows_ ? padded(rows * static_cast<std::size_t>(query_stride) * sizeof(T)) : 0;
  const std::size_t token_bytes = padded(2 * dim * sizeof(float));
  const std::size_t overview_bytes = padded(
      static_cast<std::size_t>(kernels::resize::scratch_floats(overview_columns)) * sizeof(float));
  const auto integers = static_cast<std::size_t>(kernels::quantised_linear::row_bytes(widest));
  const std::size_t integer_bytes = quantised ? padded(rows * integers) : 0;
  const std::size_t scale_bytes = quantised ? padded(rows * sizeof(float)) : 0;
  const std::size_t thread_bytes = rows_bytes + wide_bytes + query_bytes + token_bytes +
                                   overview_bytes + integer_bytes + 2 * scale_bytes +
                                   padded(mixing_bytes) + keys_bytes + values_bytes + group_bytes;
  scratch_memory_ = Buffer<std::byte>(thread_bytes * static_cast<std::size_t>(threads));
  std::byte* memory = scratch_memory_.data();
  const auto take = [&memory](std::size_t bytes) { return std::exchange(memory, memory + bytes); };
  for (int thread = 0; thread < threads; ++thread) {
    Scratch<T> s{};
    s.rows = reinterpret_cast<T*>(take(rows_bytes));
    s.wide = reinterpret_cast<T*>(take(wide_bytes));
    s.queries = reinterpret_cast<T*>(take(query_bytes));
    s.token = reinterpret_cast<float*>(take(token_bytes));
    s.overview = reinterpret_cast<float*>(take(overview_bytes));
    s.quantised.values = reinterpret_cast<std::uint8_t*>(take(integer_bytes));
    s.quantised.scale = reinterpret_cast<float*>(take(scale_bytes));
    s.quantised.least = reinterpret_cast<float*>(take(scale_bytes));
    s.mixing = take(padded(mixing_bytes));
    s.window_keys = reinterpret_cast<T*>(take(keys_bytes));
    s.window_values = reinterpret_cast<T*>(take(values_bytes));
    s.group = take(group_bytes);
    scratch.push_back(std::move(s));
  }
}

template class Workspace<float>;
template class Workspace<kernels::BFloat16>;

}  // namespace hydrascope::model::inference
