#include "model/inference/streaming_executor.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/local_convolution/local_convolution.h"
#include "kernels/patchify/patchify.h"
#include "kernels/resize/resize.h"
#include "kernels/softmax_attention/few_queries.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "model/inference/workspace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

namespace hydra = kernels::hydra;
namespace linear_attention = kernels::linear_attention;
namespace local_convolution = kernels::local_convolution;
namespace quantised_linear = kernels::quantised_linear;
namespace softmax_attention = kernels::softmax_attention;
using kernels::linear::Epilogue;
using kernels::linear::LinearParams;

using Site = std::vector<float> BlockRanges::*;  ///< a linear layer's place in its block

/// Makes `ranges` as large as `more` everywhere.
void raise(ChannelRanges& ranges, const ChannelRanges& more) {
  for (std::size_t block = 0; block < more.size(); ++block) {
    for (const Site site :
         {&BlockRanges::qkv, &BlockRanges::proj, &BlockRanges::fc1, &BlockRanges::fc2}) {
      const std::vector<float>& from = more[block].*site;
      std::vector<float>& to = ranges[block].*site;
      to.resize(std::max(to.size(), from.size()));
      for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
    }
  }
}

/// Raises the range of every channel to what `rows` (count, channels) hold.
template <class T>
void raise(std::vector<float>& range, const T* rows, std::int64_t count, std::int64_t channels) {
  range.resize(static_cast<std::size_t>(channels));
  for (std::int64_t row = 0; row < count; ++row, rows += channels)
    for (std::int64_t i = 0; i < channels; ++i) {
      float& channel = range[static_cast<std::size_t>(i)];
      channel = std::max(channel, std::abs(static_cast<float>(rows[i])));
    }
}

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

  void make_overviews(const float* images, std::int64_t count);
  void embed(const float* images, const Tile& tile, Scratch& scratch, StageClock& clock);
  template <class Visit>
  void for_each_run(const Tile& tile, Visit visit) const;
  /// A grid of patches, and the number of its first one.
  struct Plane {
    std::int64_t first, rows, columns;
  };
  /// That of the picture or, behind it, that of its overview.
  [[nodiscard]] Plane plane_of(std::int64_t patch) const {
    const TokenGrid& grid = geometry_.grid;
    if (patch < grid.num_patches()) return {0, grid.rows, grid.columns};
    return {grid.num_patches(), grid.overview_rows, grid.overview_columns};
  }
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
  void ask_for_prefix(std::size_t layer, const Tile& tile, const Scratch& scratch);
  void reduce(std::size_t layer, std::int64_t count, StageTimes* times);
  void keep_best(std::size_t layer, std::int64_t image);
  void finish_block(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  const T* mix(std::size_t layer, const Tile& tile, Scratch& scratch);
  void mix_windows(std::size_t layer, const Tile& tile, Scratch& scratch);
  void add_local_term(std::size_t layer, const Tile& tile, T* mixed);
  void classify(std::int64_t image, float* logits, Scratch& scratch);
  void pool(std::int64_t image, std::int64_t token, float* pooled, Scratch& scratch);

  /// Rows that a linear layer reads, contiguous; for quantised layers also as integers.
  struct Input {
    const T* rows;
    quantised_linear::Rows quantised;
  };
  Input input(const PackedLinear& layer, const T* rows, std::int64_t count, Scratch& scratch,
              std::size_t block, Site site) const {
    if (!scratch.ranges.empty()) raise(scratch.ranges[block].*site, rows, count, layer.in());
    if (layer.is_quantised())
      quantised_linear::quantise(quantised_linear::QuantiseParams<T>{
          rows, layer.in(), count, layer.in(),
          layer.multiplier.empty() ? nullptr : layer.multiplier.data(), scratch.quantised});
    return {rows, scratch.quantised};
  }
  /// Computes the first `count` rows.
  void linear(const PackedLinear& layer, const Input& x, std::int64_t count, T* y,
              std::int64_t y_stride, Epilogue epilogue) const {
    if (count <= 0) return;
    if (layer.is_quantised())
      quantised_linear::linear(quantised_linear::LinearParams<T>{
          x.quantised, count, &layer.quantised, layer.bias.data(), y, y_stride, epilogue});
    else
      kernels::linear::linear(LinearParams<T>{x.rows, layer.in(), count, &layer.weight,
                                              layer.bias.data(), y, y_stride, epilogue});
  }
  void layer_norm(const T* x, std::int64_t rows, T* y) const {
    kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
        x, dim_, rows, dim_, nullptr, nullptr, net_.layer_norm_eps, y, dim_});
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

/// Reduces every picture to what its overview is cut from, a part of a plane at a time.
template <class T>
void Executor<T>::make_overviews(const float* images, std::int64_t count) {
  constexpr std::int64_t kRows = 8;  // neighbours read most of the same rows of the picture
  const kernels::resize::Taps& rows = work_.overview_rows;
  const kernels::resize::Taps& columns = work_.overview_columns;
  const std::int64_t parts = (rows.to() + kRows - 1) / kRows;
  const auto reduce = [&](std::int64_t item, int thread) {
    const std::int64_t plane = item / parts;
    const std::int64_t first = item % parts * kRows;
    kernels::resize::resize({images + plane * rows.from * columns.from, &rows, &columns, first,
                             std::min(kRows, rows.to() - first),
                             work_.overview.data() + plane * rows.to() * columns.to(),
                             work_.scratch[static_cast<std::size_t>(thread)].overview});
  };
  team_.run(count * net_.in_chans * parts, reduce);
}

template <class T>
void Executor<T>::embed(const float* images, const Tile& t, Scratch& scratch, StageClock& clock) {
  T* x = work_.tokens(t);
  for (std::int64_t row = 0; row < t.rows; ++row, x += dim_) {
    const std::int64_t token = t.first + row;
    if (token < net_.num_prefix) {
      const float* prefix = geometry_.prefix.data() + token * dim_;
      for (std::int64_t i = 0; i < dim_; ++i) x[i] = T(prefix[i]);
    } else {
      std::memcpy(x, work_.position.data() + (token - net_.num_prefix) * dim_,
                  static_cast<std::size_t>(dim_) * sizeof(T));
    }
  }
  const std::int64_t size = net_.patch_size;
  const std::int64_t width = net_.patch_dim();
  const std::int64_t prefix = prefix_rows(t);
  for_each_run(t, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
    const Plane plane = plane_of(patch);
    kernels::patchify::from_tensor(
        (plane.first > 0 ? work_.overview.data() : images) +
            t.image * plane.rows * plane.columns * width,
        net_.in_chans, plane.rows * size, plane.columns * size,
        kernels::patchify::PatchRows<T>{plane.columns, size, patch - plane.first, count,
                                        scratch.wide + (row - prefix) * width, width});
  });
  linear(net_.patch_embed, {scratch.wide, {}}, t.rows - prefix, work_.tokens(t) + prefix * dim_,
         dim_, Epilogue::add);
  clock.lap(Stage::patch_embed);
}

/// visit(row, patch, count): rows row .. row + count of the tile are these patches of the picture
/// or, numbered behind them, of the overview. A visit stays within one of the two.
template <class T>
template <class Visit>
void Executor<T>::for_each_run(const Tile& t, Visit visit) const {
  std::int64_t token = std::max<std::int64_t>(0, t.first - net_.num_prefix);
  const std::int64_t end = t.first + t.rows - net_.num_prefix;
  if (token >= end) return;
  auto run = std::ranges::upper_bound(geometry_.order.runs, token, {}, &TokenOrder::Run::token) - 1;
  for (; token < end; ++run) {
    const std::int64_t skipped = token - run->token;
    const std::int64_t count = std::min(run->count - skipped, end - token);
    visit(token + net_.num_prefix - t.first, run->patch + skipped, count);
    token += count;
  }
}

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
  for_each_run(t, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
    note(row, net_.num_prefix + patch, count);
  });
}

template <class T>
void Executor<T>::project(std::size_t layer, const Tile& t, Scratch& scratch, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  if (trace_ != nullptr) note_tokens(layer, t);
  layer_norm(work_.tokens(t), t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  const std::int64_t width = block.key_value.out();
  const std::int64_t num_tiles = work_.keys_of(layer).num_tiles();
  T* queries = queries_of(layer, t, scratch);
  T* keys_values = keys_of(layer, t, scratch);
  const Input normalised =
      input(block.key_value, scratch.rows, t.rows, scratch, layer, &BlockRanges::qkv);
  linear(block.key_value, normalised, t.rows, keys_values, width, Epilogue::store);
  const std::int64_t with_query = query_rows(layer, t);
  linear(block.query, normalised, with_query, queries, work_.query_stride, Epilogue::store);
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
      linear_attention::combine<T>(
          l->shape, work_.linear_sums.data() + image * static_cast<std::size_t>(num_tiles) * sums,
          num_tiles, item % heads, 1,
          work_.linear_state.data() + image * work_.linear_state_stride);
    };
    team_.run(count * heads, combine_head);
  } else if (const auto* m = std::get_if<ModuleLayer>(&mixing)) {
    m->mix(count, geometry_.grid, work_.q.data(), work_.query_stride,
           work_.stored_keys(layer, {0, 0, 0, 0}), work_.module_mixed.data());
    clock.lap(Stage::module);
  }
  clock.lap(Stage::attention);
}

/// What the tile's keys give to the prefix tokens, which see all of them.
template <class T>
void Executor<T>::ask_for_prefix(std::size_t layer, const Tile& t, const Scratch& scratch) {
  const PackedBlock& block = net_.blocks[layer];
  const ImageGeometry::PrefixWeights& weights = geometry_.prefix_weights[layer];
  const auto parts = std::ranges::equal_range(work_.parts, t.index, {}, &KeyPart::tile);
  for (const KeyPart& part : parts) {
    const T* keys = keys_of(layer, t, scratch) + (part.first - t.first) * block.key_value.out();
    const bool biased = part.of_overview && !weights.overview.empty();
    softmax_attention::attend_part(softmax_attention::PartParams<T>{
        work_.softmax_shape(part.count), work_.queries({t.image, 0, 0, 0}), work_.query_stride,
        net_.num_prefix, keys, keys + block.key_width(dim_), block.key_value.out(),
        weights.factor.empty() ? nullptr : weights.factor.data(),
        biased ? weights.overview.data() : nullptr,
        work_.prefix_parts(t.image) +
            static_cast<std::size_t>(&part - work_.parts.data()) * work_.part_size});
  }
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
  ask_for_prefix(layer, t, scratch);  // while the keys are in the cache
  if (const std::int64_t rows = prefix_rows(t); rows > 0) {
    const std::int64_t head_dim = dim_ / net_.num_heads;
    softmax_attention::merge_parts(softmax_attention::MergeParams<T>{
        net_.num_heads, head_dim, rows, work_.prefix_parts(t.image),
        static_cast<std::int64_t>(work_.part_size), std::ssize(work_.parts), scratch.rows, dim_});
  }
}

/// A tile's patches see the values of those around them, in other tiles, too.
template <class T>
void Executor<T>::add_local_term(std::size_t layer, const Tile& t, T* mixed) {
  const PackedBlock& block = net_.blocks[layer];
  const std::int64_t stride = block.key_value.out();
  const T* values =
      work_.stored_keys(layer, {t.image, 0, net_.num_prefix, 0}) + block.key_width(dim_);
  for_each_run(t, [&](std::int64_t row, std::int64_t patch, std::int64_t count) {
    const Plane plane = plane_of(patch);
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
      hydra::gate(q, work_.query_stride, global, t.rows, dim_, scratch.rows, dim_);
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
    return work_.module_mixed.data() + (t.image * work_.num_tokens + t.first) * dim_;
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
  linear(block.proj, input(block.proj, mixed, t.rows, scratch, layer, &BlockRanges::proj), t.rows,
         x, dim_, Epilogue::add);
  clock.lap(Stage::proj);
  layer_norm(x, t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  linear(block.fc1, input(block.fc1, scratch.rows, t.rows, scratch, layer, &BlockRanges::fc1),
         t.rows, scratch.wide, net_.hidden_dim, Epilogue::gelu);
  linear(block.fc2, input(block.fc2, scratch.wide, t.rows, scratch, layer, &BlockRanges::fc2),
         t.rows, x, dim_, Epilogue::add);
  clock.lap(Stage::mlp);
}

/// Moves the best tokens of an image to the front, in their order.
template <class T>
void Executor<T>::keep_best(std::size_t layer, std::int64_t image) {
  const PackedBlock& block = net_.blocks[layer];
  const std::int64_t tokens = work_.num_tokens;
  const std::int64_t prefix = net_.num_prefix;
  float* heat = work_.heat.data() + image * tokens;
  std::int32_t* order = work_.order.data() + image * tokens;
  heat_from_scores(block.mixing, work_.scores.data() + image * net_.num_heads * tokens,
                   net_.num_heads, tokens, heat);
  best_tokens(heat, prefix, tokens, work_.reduction->patches, order);
  const Tile whole{image, 0, 0, tokens};
  T* x = work_.tokens(whole);
  T* q = work_.queries(whole);
  const std::int64_t stride = work_.query_stride;
  for (std::int64_t i = 0; i < work_.reduction->patches; ++i) {
    if (order[i] == prefix + i) continue;  // already there
    std::copy_n(x + order[i] * dim_, dim_, x + (prefix + i) * dim_);
    std::copy_n(q + order[i] * stride, block.query_width(), q + (prefix + i) * stride);
  }
}

template <class T>
void Executor<T>::reduce(std::size_t layer, std::int64_t count, StageTimes* times) {
  StageClock clock(times);
  const PackedBlock& block = net_.blocks[layer];
  if (const auto* h = std::get_if<HydraLayer>(&block.mixing)) {
    for (std::int64_t image = 0; image < count; ++image) {
      const T* query = work_.queries({image, 0, 0, 1});
      float* weight = work_.class_weight.data() + image * dim_;
      for (std::int64_t i = 0; i < dim_; ++i)
        weight[i] =
            static_cast<float>(query[i]) *
            (h->feature_scale.empty() ? 1.0F : h->feature_scale[static_cast<std::size_t>(i)]);
    }
  }
  const auto score = [&](std::int64_t item, int) {
    const Tile t = tile_of(item, work_.whole);
    const T* keys = work_.stored_keys(layer, t);
    score_tokens(
        ScoreParams<T>{&block.mixing, work_.queries({t.image, 0, 0, 1}),
                       work_.class_weight.data() + t.image * dim_, keys,
                       keys + block.key_width(dim_), block.key_value.out(), t.rows, prefix_rows(t),
                       geometry_.token_weights[layer], net_.num_heads, dim_ / net_.num_heads,
                       work_.scores.data() + t.image * net_.num_heads * work_.num_tokens + t.first,
                       work_.num_tokens, work_.heat.data() + t.image * work_.num_tokens + t.first});
  };
  team_.run(count * work_.whole.num_tiles(), score);
  const auto keep = [&](std::int64_t image, int) { keep_best(layer, image); };
  team_.run(count, keep);
  clock.lap(Stage::attention);
}

/// One pooled row in float32, normalised, into scratch.token's first half.
template <class T>
void Executor<T>::pool(std::int64_t image, std::int64_t token, float* pooled, Scratch& scratch) {
  const PackedHead& head = net_.head;
  const T* x = work_.x.data() + image * work_.num_tokens * dim_;
  float* row = scratch.token + dim_;
  const auto read = [&](std::int64_t index) {
    for (std::int64_t i = 0; i < dim_; ++i) row[i] = static_cast<float>(x[index * dim_ + i]);
  };
  const auto norm = [&](float* values) {
    kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<float>{
        values, dim_, 1, dim_, head.norm_weight.data(), head.norm_bias.data(), net_.layer_norm_eps,
        values, dim_});
  };
  if (!head.average) {
    read(token);
    std::copy_n(row, dim_, pooled);
    norm(pooled);
    return;
  }
  std::fill_n(pooled, dim_, 0.0F);
  for (std::int64_t index = net_.num_prefix; index < work_.num_tokens; ++index) {
    read(index);
    if (!head.norm_after_pool) norm(row);
    for (std::int64_t i = 0; i < dim_; ++i) pooled[i] += row[i];
  }
  const float share = 1.0F / static_cast<float>(work_.num_tokens - net_.num_prefix);
  for (std::int64_t i = 0; i < dim_; ++i) pooled[i] *= share;
  if (head.norm_after_pool) norm(pooled);
}

template <class T>
void Executor<T>::classify(std::int64_t image, float* logits, Scratch& scratch) {
  const PackedHead& head = net_.head;
  pool(image, 0, scratch.token, scratch);
  LinearParams<float> p{scratch.token,
                        dim_,
                        1,
                        &head.classifier.weight,
                        head.classifier.bias.data(),
                        logits,
                        net_.num_classes,
                        Epilogue::store};
  kernels::linear::linear(p);
  if (head.distilled.weight.out() == 0) return;
  pool(image, 1, scratch.token, scratch);
  p.weight = &head.distilled.weight;
  p.bias = head.distilled.bias.data();
  p.epilogue = Epilogue::add;
  kernels::linear::linear(p);
  for (std::int64_t i = 0; i < net_.num_classes; ++i) logits[i] *= 0.5F;
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
    make_overviews(images, count);
    clock.lap(Stage::patch_embed);
  }
  const auto start = [&](std::int64_t item, int thread) {
    Scratch& scratch = work_.scratch[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    const Tile t = tile_of(item, work_.whole);
    embed(images, t, scratch, clock);
    if (!work_.projects_late(0, t)) project(0, t, scratch, clock);
  };
  team_.run(count * work_.whole.num_tiles(), start);
  const std::size_t depth = net_.blocks.size();
  for (std::size_t layer = 0; layer < depth; ++layer) {
    combine(layer, count, times);
    if (work_.reduces(layer)) reduce(layer, count, times);
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
    classify(image, logits + image * net_.num_classes, scratch);
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
