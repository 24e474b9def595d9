#include "model/inference/streaming_executor.h"

#include "kernels/attention_map/attention_map.h"
#include "kernels/device/cache_sizes.h"
#include "kernels/device/matrix_instructions.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/patchify/patchify.h"
#include "kernels/softmax_attention/softmax_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

namespace attention_map = kernels::attention_map;
namespace hydra = kernels::hydra;
namespace linear_attention = kernels::linear_attention;
namespace quantised_linear = kernels::quantised_linear;
namespace softmax_attention = kernels::softmax_attention;
using kernels::AlignedBuffer;
using kernels::linear::Epilogue;
using kernels::linear::LinearParams;

/// Makes `ranges` as large as `more` everywhere.
void raise(ChannelRanges& ranges, const ChannelRanges& more) {
  for (std::size_t block = 0; block < more.size(); ++block) {
    for (auto site :
         {&BlockRanges::qkv, &BlockRanges::proj, &BlockRanges::fc1, &BlockRanges::fc2}) {
      const std::vector<float>& from = more[block].*site;
      std::vector<float>& to = ranges[block].*site;
      to.resize(std::max(to.size(), from.size()));
      for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
    }
  }
}

/// Vectors of one thread start on cache lines of their own.
std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
class Executor final : public StreamingExecutor {
 public:
  Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
           kernels::device::ThreadTeam& team, const std::optional<TokenReduction>& reduction);
  void run(const ImageBatch& images, std::int64_t count, float* logits,
           const Observers& observers) override;
  [[nodiscard]] std::size_t workspace_bytes() const override { return workspace_bytes_; }
  [[nodiscard]] TileShape tiles() const override { return whole_.tiles; }

 private:
  /// The tokens that are alive.
  struct Extent {
    std::int64_t num_tokens = 0;
    TileShape tiles;
  };
  /// Rows first .. first + rows of image `image`.
  struct Tile {
    std::int64_t image;
    std::int64_t index;
    std::int64_t first;
    std::int64_t rows;
  };
  /// What one thread works in.
  struct Scratch {
    T* rows;       ///< (tile, D)
    T* wide;       ///< (tile, widest activation)
    void* mixing;  ///< the attention kernels'
    quantised_linear::Rows quantised;  ///< a linear layer's input
    float* token;  ///< (2 D), for the head
    StageTimes times;
    ChannelRanges ranges;  ///< empty unless they are asked for
  };

  template <class Element>
  AlignedBuffer<Element> allocate(std::size_t count) {
    workspace_bytes_ += count * sizeof(Element);
    return AlignedBuffer<Element>(count);
  }
  [[nodiscard]] static Tile tile(std::int64_t item, const Extent& extent);
  [[nodiscard]] bool reduces(std::size_t layer) const {
    return reduction_ && std::cmp_equal(layer, reduction_->layer);
  }
  /// Tokens that have keys in `layer`.
  [[nodiscard]] const Extent& keys_of(std::size_t layer) const {
    return reduction_ && std::cmp_greater(layer, reduction_->layer) ? kept_ : whole_;
  }
  /// Tokens that leave `layer`.
  [[nodiscard]] const Extent& outputs_of(std::size_t layer) const {
    return reduction_ && std::cmp_greater_equal(layer, reduction_->layer) ? kept_ : whole_;
  }
  void embed(const ImageBatch& images, const Tile& tile, Scratch& scratch, StageClock& clock);
  void project(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  void combine(std::size_t layer, std::int64_t count, StageTimes* times);
  void finish_block(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  const T* mix(std::size_t layer, const Tile& tile, Scratch& scratch);
  void reduce(std::size_t layer, std::int64_t count, StageTimes* times);
  void score(std::size_t layer, const Tile& tile);
  void keep_best(std::size_t layer, std::int64_t image);
  void classify(std::int64_t image, float* logits, Scratch& scratch);
  void pool(std::int64_t image, std::int64_t token, float* pooled, Scratch& scratch);

  /// Rows that a linear layer reads, contiguous; for quantised layers also as integers in `scratch`.
  struct Input {
    const T* rows;
    std::int64_t count;
    quantised_linear::Rows quantised;
  };
  /// `site`: the layer's place in its block, for calibration.
  Input input(const PackedLinear& layer, const T* rows, std::int64_t count, Scratch& scratch,
              std::size_t block, std::vector<float> BlockRanges::*site) const {
    if (!scratch.ranges.empty()) {
      std::vector<float>& greatest = scratch.ranges[block].*site;
      greatest.resize(static_cast<std::size_t>(layer.in()));
      for (std::int64_t i = 0; i < count * layer.in(); ++i) {
        float& channel = greatest[static_cast<std::size_t>(i % layer.in())];
        channel = std::max(channel, std::abs(static_cast<float>(rows[i])));
      }
    }
    if (layer.is_quantised())
      quantised_linear::quantise(quantised_linear::QuantiseParams<T>{
          rows, layer.in(), count, layer.in(),
          layer.multiplier.empty() ? nullptr : layer.multiplier.data(), scratch.quantised});
    return {rows, count, scratch.quantised};
  }
  /// Of the first `count` rows.
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
  [[nodiscard]] softmax_attention::Shape softmax_shape(const Extent& extent) const {
    return {extent.num_tokens, net_.num_heads, dim_ / net_.num_heads};
  }
  /// Tokens that have a query in `layer`.
  [[nodiscard]] std::int64_t queries_of(std::size_t layer) const {
    if (layer + 1 < net_.blocks.size() || net_.head.average) return keys_of(layer).num_tokens;
    return std::max<std::int64_t>(1, net_.num_prefix);
  }
  /// Keys and values are kept whole, not a tile at a time.
  [[nodiscard]] bool stores_keys(std::size_t layer) const {
    return reduces(layer) || std::holds_alternative<ModuleLayer>(net_.blocks[layer].mixing);
  }
  T* stored_keys(std::size_t layer, const Tile& t) {
    return stored_keys_values_.data() +
           (t.image * num_tokens_ + t.first) * net_.blocks[layer].key_value.out();
  }
  /// Of this tile.
  [[nodiscard]] std::int64_t query_rows(std::size_t layer, const Tile& tile) const {
    if (std::holds_alternative<ModuleLayer>(net_.blocks[layer].mixing)) return tile.rows;
    return std::clamp<std::int64_t>(queries_of(layer) - tile.first, 0, tile.rows);
  }
  T* tokens(const Tile& t) { return tokens_.data() + (t.image * num_tokens_ + t.first) * dim_; }
  T* queries(std::size_t layer, const Tile& t) {
    return queries_.data() +
           (t.image * num_tokens_ + t.first) * net_.blocks[layer].query_width();
  }

  const PackedNetwork& net_;
  ImageGeometry geometry_;
  kernels::device::ThreadTeam& team_;
  std::int64_t batch_;
  std::int64_t dim_;
  std::int64_t num_tokens_;  ///< rows of an image in every buffer
  std::optional<TokenReduction> reduction_;
  Extent whole_;
  Extent kept_;
  std::size_t workspace_bytes_ = 0;

  AlignedBuffer<T> tokens_;    ///< x (B, N, D)
  AlignedBuffer<T> queries_;   ///< (B, N, widest query)
  AlignedBuffer<T> position_;  ///< (patches, D)
  AlignedBuffer<float> hydra_sums_;  ///< (B, tiles, D)
  AlignedBuffer<float> hydra_global_;  ///< (B, D)
  AlignedBuffer<float> linear_sums_;  ///< (B, tiles, most sums)
  AlignedBuffer<std::byte> linear_state_;  ///< (B, largest state)
  std::size_t linear_sums_stride_ = 0;
  std::size_t linear_state_stride_ = 0;
  AlignedBuffer<T> keys_[2];  ///< by parity of the layer: the next one is written while one is read
  AlignedBuffer<T> values_[2];
  AlignedBuffer<T> stored_keys_values_;  ///< (B, N, widest keys + D), where `stores_keys`
  AlignedBuffer<T> module_mixed_;        ///< (B, N, D)
  AlignedBuffer<float> scores_;          ///< (B, H, N): where tokens are dropped
  AlignedBuffer<float> class_weight_;    ///< (B, D): the class token's query, for Hydra's map
  AlignedBuffer<float> heat_;            ///< (B, N)
  AlignedBuffer<std::int32_t> order_;    ///< (B, patches)
  AlignedBuffer<std::byte> scratch_memory_;
  std::vector<Scratch> scratch_;
};

template <class T>
Executor<T>::Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                      kernels::device::ThreadTeam& team,
                      const std::optional<TokenReduction>& reduction)
    : net_(network),
      geometry_(std::move(geometry)),
      team_(team),
      batch_(batch),
      dim_(network.embed_dim),
      num_tokens_(network.num_prefix + geometry_.grid_rows * geometry_.grid_columns),
      reduction_(reduction) {
  std::int64_t widest_query = dim_;
  std::int64_t widest = std::max(net_.hidden_dim, net_.patch_dim());
  for (const PackedBlock& block : net_.blocks) {
    widest_query = std::max(widest_query, block.query_width());
    widest = std::max(widest, block.key_value.out());
  }
  const bool quantised = std::any_of(
      net_.blocks.begin(), net_.blocks.end(),
      [](const PackedBlock& block) { return block.key_value.is_quantised(); });
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(sizeof(T)) * (2 * dim_ + widest) + (quantised ? widest : 0);
  using kernels::device::MatrixInstruction;
  const bool matrix_tiles =
      quantised ? kernels::device::may_use(MatrixInstruction::amx_int8)
                : sizeof(T) == 2 && kernels::device::may_use(MatrixInstruction::amx_bf16);
  const auto extent = [&](std::int64_t tokens) {
    return Extent{tokens, choose_tiles(tokens, batch, row_bytes,
                                       kernels::device::cache_sizes().l2_bytes, team.size(),
                                       matrix_tiles ? kMatrixTileRows : kStripRows)};
  };
  whole_ = extent(num_tokens_);
  kept_ = reduction ? extent(net_.num_prefix + reduction->patches) : whole_;
  const std::int64_t most_rows = std::max(whole_.tiles.rows, kept_.tiles.rows);
  const std::int64_t most_tiles = std::max(whole_.tiles.count, kept_.tiles.count);
  const auto images = static_cast<std::size_t>(batch);
  const auto num_tokens = static_cast<std::size_t>(num_tokens_);
  const auto dim = static_cast<std::size_t>(dim_);
  const auto tile_rows = static_cast<std::size_t>(most_rows);
  const std::size_t num_tiles = images * static_cast<std::size_t>(most_tiles);
  tokens_ = allocate<T>(images * num_tokens * dim);
  queries_ = allocate<T>(images * num_tokens * static_cast<std::size_t>(widest_query));
  position_ = allocate<T>(geometry_.position.size());
  std::transform(geometry_.position.begin(), geometry_.position.end(), position_.begin(),
                 [](float value) { return T(value); });
  geometry_.position = {};
  std::size_t mixing_bytes = 0;
  bool softmax = false;
  for (const PackedBlock& block : net_.blocks) {
    if (std::holds_alternative<HydraLayer>(block.mixing) && hydra_sums_.empty()) {
      hydra_sums_ = allocate<float>(num_tiles * dim);
      hydra_global_ = allocate<float>(images * dim);
    } else if (const auto* linear = std::get_if<LinearLayer>(&block.mixing)) {
      linear_sums_stride_ = std::max(linear_sums_stride_, linear_attention::sums_size(linear->shape));
      linear_state_stride_ =
          std::max(linear_state_stride_, padded(linear_attention::state_bytes<T>(linear->shape)));
      mixing_bytes =
          std::max(mixing_bytes, linear_attention::scratch_bytes<T>(linear->shape, most_rows));
    } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
      softmax = true;
      mixing_bytes =
          std::max(mixing_bytes, softmax_attention::scratch_bytes<T>(softmax_shape(whole_)));
    } else if (std::holds_alternative<ModuleLayer>(block.mixing) && module_mixed_.empty()) {
      module_mixed_ = allocate<T>(images * num_tokens * dim);
    }
  }
  std::int64_t stored_width = 0;
  for (std::size_t layer = 0; layer < net_.blocks.size(); ++layer)
    if (stores_keys(layer)) stored_width = std::max(stored_width, net_.blocks[layer].key_value.out());
  stored_keys_values_ = allocate<T>(images * num_tokens * static_cast<std::size_t>(stored_width));
  if (reduction) {
    scores_ = allocate<float>(images * static_cast<std::size_t>(net_.num_heads) * num_tokens);
    class_weight_ = allocate<float>(images * dim);
    heat_ = allocate<float>(images * num_tokens);
    order_ = allocate<std::int32_t>(images * num_tokens);
  }
  linear_sums_ = allocate<float>(num_tiles * linear_sums_stride_);
  linear_state_ = allocate<std::byte>(images * linear_state_stride_);
  for (int parity = 0; softmax && parity < 2; ++parity) {
    keys_[parity] = allocate<T>(images * softmax_attention::keys_size<T>(softmax_shape(whole_)));
    values_[parity] = allocate<T>(images * softmax_attention::values_size<T>(softmax_shape(whole_)));
  }
  const std::size_t rows_bytes = padded(tile_rows * dim * sizeof(T));
  const std::size_t wide_bytes = padded(tile_rows * static_cast<std::size_t>(widest) * sizeof(T));
  const std::size_t token_bytes = padded(2 * dim * sizeof(float));
  // A quantised layer's input: bytes, and two floats a row.
  const std::size_t quantised_rows =
      quantised ? padded(tile_rows * static_cast<std::size_t>(quantised_linear::row_bytes(widest))) : 0;
  const std::size_t quantised_floats = quantised ? padded(tile_rows * sizeof(float)) : 0;
  const std::size_t thread_bytes = rows_bytes + wide_bytes + token_bytes + quantised_rows +
                                   2 * quantised_floats + padded(mixing_bytes);
  scratch_memory_ = allocate<std::byte>(thread_bytes * static_cast<std::size_t>(team.size()));
  std::byte* memory = scratch_memory_.data();
  const auto take = [&memory](std::size_t bytes) { return std::exchange(memory, memory + bytes); };
  for (int thread = 0; thread < team.size(); ++thread) {
    Scratch scratch{};
    scratch.rows = reinterpret_cast<T*>(take(rows_bytes));
    scratch.wide = reinterpret_cast<T*>(take(wide_bytes));
    scratch.token = reinterpret_cast<float*>(take(token_bytes));
    scratch.quantised.values = reinterpret_cast<std::uint8_t*>(take(quantised_rows));
    scratch.quantised.scale = reinterpret_cast<float*>(take(quantised_floats));
    scratch.quantised.least = reinterpret_cast<float*>(take(quantised_floats));
    scratch.mixing = take(padded(mixing_bytes));
    scratch_.push_back(scratch);
  }
}

template <class T>
auto Executor<T>::tile(std::int64_t item, const Extent& extent) -> Tile {
  const std::int64_t index = item % extent.tiles.count;
  const std::int64_t first = index * extent.tiles.rows;
  return {item / extent.tiles.count, index, first,
          std::min(extent.tiles.rows, extent.num_tokens - first)};
}

template <class T>
void Executor<T>::embed(const ImageBatch& images, const Tile& t, Scratch& scratch,
                        StageClock& clock) {
  T* x = tokens(t);
  for (std::int64_t row = 0; row < t.rows; ++row, x += dim_) {
    const std::int64_t token = t.first + row;
    if (token < net_.num_prefix) {
      const float* prefix = geometry_.prefix.data() + token * dim_;
      for (std::int64_t i = 0; i < dim_; ++i) x[i] = T(prefix[i]);
    } else {
      std::memcpy(x, position_.data() + (token - net_.num_prefix) * dim_,
                  static_cast<std::size_t>(dim_) * sizeof(T));
    }
  }
  const std::int64_t first_patch = std::max<std::int64_t>(0, t.first - net_.num_prefix);
  const std::int64_t skipped = first_patch + net_.num_prefix - t.first;
  const std::int64_t count = t.rows - skipped;
  if (count > 0) {
    const std::int64_t patch_dim = net_.patch_dim();
    const kernels::patchify::PatchRows<T> rows{geometry_.grid_columns, net_.patch_size, first_patch,
                                               count,             scratch.wide,    patch_dim};
    const std::int64_t height = geometry_.grid_rows * net_.patch_size;
    const std::int64_t width = geometry_.grid_columns * net_.patch_size;
    if (images.pixels != nullptr) {
      kernels::patchify::from_pixels(images.pixels[t.image], width * 3, rows);
    } else {
      kernels::patchify::from_tensor(images.tensor + t.image * net_.in_chans * height * width,
                                     net_.in_chans, height, width, rows);
    }
    const PackedLinear& layer = images.pixels != nullptr ? net_.patch_pixels : net_.patch_tensor;
    linear(layer, {scratch.wide, count, {}}, count, tokens(t) + skipped * dim_, dim_, Epilogue::add);
  }
  clock.lap(Stage::patch_embed);
}

template <class T>
void Executor<T>::project(std::size_t layer, const Tile& t, Scratch& scratch, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  layer_norm(tokens(t), t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  const std::int64_t width = block.key_value.out();
  const std::int64_t num_tiles = keys_of(layer).tiles.count;
  T* keys_values = stores_keys(layer) ? stored_keys(layer, t) : scratch.wide;
  const Input normalised = input(block.key_value, scratch.rows, t.rows, scratch, layer, &BlockRanges::qkv);
  linear(block.key_value, normalised, t.rows, keys_values, width, Epilogue::store);
  const std::int64_t with_query = query_rows(layer, t);
  linear(block.query, normalised, with_query, queries(layer, t), block.query_width(),
         Epilogue::store);
  clock.lap(Stage::qkv);
  const T* keys = keys_values;
  const T* values = keys_values + block.key_width(dim_);
  const ImageGeometry::TokenWeights& weights = geometry_.token_weights[layer];
  const std::int64_t prefix = std::clamp<std::int64_t>(net_.num_prefix - t.first, 0, t.rows);
  if (const auto* h = std::get_if<HydraLayer>(&block.mixing)) {
    hydra::ProjectParams<T> p{};
    p.q = queries(layer, t);
    p.q_stride = dim_;
    p.query_rows = with_query;
    p.q_hat = queries(layer, t);
    p.q_hat_stride = dim_;
    p.k = keys;
    p.v = values;
    p.stride = width;
    p.rows = t.rows;
    p.dim = dim_;
    p.kernel = h->kernel;
    p.num_prefix = prefix;
    p.prefix_weight = weights.prefix;
    p.patch_weight = weights.patch;
    p.sum = hydra_sums_.data() + (t.image * num_tiles + t.index) * dim_;
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
    p.sums = linear_sums_.data() +
             static_cast<std::size_t>(t.image * num_tiles + t.index) *
                 linear_attention::sums_size(l->shape);
    p.scratch = scratch.mixing;
    linear_attention::clear(l->shape, p.sums);
    linear_attention::accumulate(p);
  } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
    const softmax_attention::Shape shape = softmax_shape(keys_of(layer));
    const auto image = static_cast<std::size_t>(t.image);
    softmax_attention::pack(softmax_attention::PackParams<T>{
        shape, keys, values, width, t.first, t.rows,
        keys_[layer % 2].data() + image * softmax_attention::keys_size<T>(shape),
        values_[layer % 2].data() + image * softmax_attention::values_size<T>(shape)});
  }
  clock.lap(Stage::attention);
}

template <class T>
void Executor<T>::combine(std::size_t layer, std::int64_t count, StageTimes* times) {
  const MixingLayer& mixing = net_.blocks[layer].mixing;
  const std::int64_t num_tiles = keys_of(layer).tiles.count;
  StageClock clock(times);
  if (const auto* h = std::get_if<HydraLayer>(&mixing)) {
    for (std::int64_t image = 0; image < count; ++image)
      hydra::combine(hydra_sums_.data() + image * num_tiles * dim_, num_tiles, dim_, 1.0F,
                     h->feature_scale.empty() ? nullptr : h->feature_scale.data(),
                     hydra_global_.data() + image * dim_);
  } else if (const auto* l = std::get_if<LinearLayer>(&mixing)) {
    const std::int64_t heads = l->shape.num_heads;
    const std::size_t sums = linear_attention::sums_size(l->shape);
    const auto combine_head = [&](std::int64_t item, int) {
      const auto image = static_cast<std::size_t>(item / heads);
      linear_attention::combine<T>(
          l->shape, linear_sums_.data() + image * static_cast<std::size_t>(num_tiles) * sums,
          num_tiles, item % heads, 1, linear_state_.data() + image * linear_state_stride_);
    };
    team_.run(count * heads, combine_head);
  } else if (const auto* m = std::get_if<ModuleLayer>(&mixing)) {
    m->mix(count, geometry_.grid_rows, geometry_.grid_columns, queries_.data(),
           stored_keys_values_.data(), module_mixed_.data());
    clock.lap(Stage::module);
  }
  clock.lap(Stage::attention);
}

template <class T>
const T* Executor<T>::mix(std::size_t layer, const Tile& t, Scratch& scratch) {
  const PackedBlock& block = net_.blocks[layer];
  const T* q = queries(layer, t);
  if (std::holds_alternative<HydraLayer>(block.mixing)) {
    hydra::gate(q, dim_, hydra_global_.data() + t.image * dim_, t.rows, dim_, scratch.rows, dim_);
  } else if (const auto* l = std::get_if<LinearLayer>(&block.mixing)) {
    linear_attention::read_out(linear_attention::ReadOutParams<T>{
        l->shape, q, block.query_width(), t.rows,
        linear_state_.data() + static_cast<std::size_t>(t.image) * linear_state_stride_,
        scratch.rows, dim_, scratch.mixing});
  } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
    const softmax_attention::Shape shape = softmax_shape(keys_of(layer));
    const auto image = static_cast<std::size_t>(t.image);
    softmax_attention::attend(softmax_attention::AttendParams<T>{
        shape, q, dim_, t.rows,
        keys_[layer % 2].data() + image * softmax_attention::keys_size<T>(shape),
        values_[layer % 2].data() + image * softmax_attention::values_size<T>(shape), scratch.rows,
        dim_, scratch.mixing});
  } else {
    return module_mixed_.data() + (t.image * num_tokens_ + t.first) * dim_;
  }
  return scratch.rows;
}

template <class T>
void Executor<T>::finish_block(std::size_t layer, const Tile& t, Scratch& scratch,
                               StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  T* x = tokens(t);
  const T* mixed = mix(layer, t, scratch);
  clock.lap(Stage::attention);
  linear(block.proj, input(block.proj, mixed, t.rows, scratch, layer, &BlockRanges::proj), t.rows, x,
         dim_, Epilogue::add);
  clock.lap(Stage::proj);
  layer_norm(x, t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  linear(block.fc1, input(block.fc1, scratch.rows, t.rows, scratch, layer, &BlockRanges::fc1), t.rows,
         scratch.wide, net_.hidden_dim, Epilogue::gelu);
  linear(block.fc2, input(block.fc2, scratch.wide, t.rows, scratch, layer, &BlockRanges::fc2), t.rows,
         x, dim_, Epilogue::add);
  clock.lap(Stage::mlp);
}

/// What every token of a tile gives to the class token, as its mechanism counts it.
template <class T>
void Executor<T>::score(std::size_t layer, const Tile& t) {
  const PackedBlock& block = net_.blocks[layer];
  const std::int64_t width = block.key_value.out();
  const T* keys = stored_keys(layer, t);
  const T* query = queries(layer, {t.image, 0, 0, 1});  // the class token's
  const ImageGeometry::TokenWeights& weights = geometry_.token_weights[layer];
  const std::int64_t prefix = std::clamp<std::int64_t>(net_.num_prefix - t.first, 0, t.rows);
  float* scores = scores_.data() + t.image * net_.num_heads * num_tokens_ + t.first;
  if (const auto* h = std::get_if<HydraLayer>(&block.mixing)) {
    attention_map::hydra_map(attention_map::HydraMapParams<T>{
        class_weight_.data() + t.image * dim_, keys, keys + dim_, width, t.rows, dim_, h->kernel,
        prefix, weights.prefix, weights.patch, attention_map::HydraMeasure::squares,
        heat_.data() + t.image * num_tokens_ + t.first});
  } else if (const auto* l = std::get_if<LinearLayer>(&block.mixing)) {
    attention_map::linear_scores(attention_map::LinearScoresParams<T>{
        l->shape, query, keys, width, t.rows, prefix, weights.prefix, weights.patch, scores,
        num_tokens_});
  } else {
    attention_map::softmax_scores(attention_map::SoftmaxScoresParams<T>{
        query, keys, width, t.rows, net_.num_heads, dim_ / net_.num_heads, scores, num_tokens_});
  }
}

/// Moves the best tokens of an image to the front, in their order.
template <class T>
void Executor<T>::keep_best(std::size_t layer, std::int64_t image) {
  const PackedBlock& block = net_.blocks[layer];
  float* heat = heat_.data() + image * num_tokens_;
  if (!std::holds_alternative<HydraLayer>(block.mixing)) {
    float* scores = scores_.data() + image * net_.num_heads * num_tokens_;
    const auto* l = std::get_if<LinearLayer>(&block.mixing);
    const bool softmax = l == nullptr || linear_attention::is_exponential(l->shape.feature);
    const auto rule = softmax ? attention_map::Weights::softmax : attention_map::Weights::raw;
    attention_map::normalise(scores, num_tokens_, net_.num_heads, num_tokens_, rule, 0.0F);
    attention_map::mean_over_heads(scores, num_tokens_, net_.num_heads, num_tokens_, heat);
  }
  const std::int64_t prefix = net_.num_prefix;
  std::int32_t* order = order_.data() + image * num_tokens_;
  std::int32_t* end = order + (num_tokens_ - prefix);
  std::iota(order, end, static_cast<std::int32_t>(prefix));
  // Signed maps rank by size; NaN, which has no order, comes last.
  for (std::int64_t i = 0; i < num_tokens_; ++i) heat[i] = std::isnan(heat[i]) ? -1 : std::abs(heat[i]);
  std::nth_element(order, order + reduction_->patches, end, [heat](std::int32_t a, std::int32_t b) {
    return heat[a] != heat[b] ? heat[a] > heat[b] : a < b;
  });
  std::sort(order, order + reduction_->patches);
  T* x = tokens_.data() + image * num_tokens_ * dim_;
  const std::int64_t query_width = block.query_width();
  T* q = queries_.data() + image * num_tokens_ * query_width;
  for (std::int64_t i = 0; i < reduction_->patches; ++i) {
    if (order[i] == prefix + i) continue;  // already there
    std::copy_n(x + order[i] * dim_, dim_, x + (prefix + i) * dim_);
    std::copy_n(q + order[i] * query_width, query_width, q + (prefix + i) * query_width);
  }
}

template <class T>
void Executor<T>::reduce(std::size_t layer, std::int64_t count, StageTimes* times) {
  StageClock clock(times);
  if (const auto* h = std::get_if<HydraLayer>(&net_.blocks[layer].mixing)) {
    for (std::int64_t image = 0; image < count; ++image) {
      const T* query = queries(layer, {image, 0, 0, 1});
      float* weight = class_weight_.data() + image * dim_;
      for (std::int64_t i = 0; i < dim_; ++i)
        weight[i] = static_cast<float>(query[i]) *
                    (h->feature_scale.empty() ? 1.0F : h->feature_scale[static_cast<std::size_t>(i)]);
    }
  }
  const auto score_tile = [&](std::int64_t item, int) { score(layer, tile(item, whole_)); };
  team_.run(count * whole_.tiles.count, score_tile);
  const auto keep = [&](std::int64_t image, int) { keep_best(layer, image); };
  team_.run(count, keep);
  clock.lap(Stage::attention);
}

/// One pooled row in float32, normalised, into scratch.token's first half.
template <class T>
void Executor<T>::pool(std::int64_t image, std::int64_t token, float* pooled, Scratch& scratch) {
  const PackedHead& head = net_.head;
  const T* x = tokens_.data() + image * num_tokens_ * dim_;
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
  for (std::int64_t index = net_.num_prefix; index < num_tokens_; ++index) {
    read(index);
    if (!head.norm_after_pool) norm(row);
    for (std::int64_t i = 0; i < dim_; ++i) pooled[i] += row[i];
  }
  const float share = 1.0F / static_cast<float>(num_tokens_ - net_.num_prefix);
  for (std::int64_t i = 0; i < dim_; ++i) pooled[i] *= share;
  if (head.norm_after_pool) norm(pooled);
}

template <class T>
void Executor<T>::classify(std::int64_t image, float* logits, Scratch& scratch) {
  const PackedHead& head = net_.head;
  pool(image, 0, scratch.token, scratch);
  LinearParams<float> p{scratch.token,     dim_,   1,
                        &head.classifier.weight, head.classifier.bias.data(), logits,
                        net_.num_classes,  Epilogue::store};
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
void Executor<T>::run(const ImageBatch& images, std::int64_t count, float* logits,
                      const Observers& observers) {
  StageTimes* const times = observers.times;
  for (Scratch& scratch : scratch_) {
    scratch.times = {};
    if (observers.ranges != nullptr) scratch.ranges.assign(net_.blocks.size(), {});
  }
  const auto clock_of = [&](Scratch& scratch) {
    return StageClock(times != nullptr ? &scratch.times : nullptr);
  };
  const auto start = [&](std::int64_t item, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    const Tile t = tile(item, whole_);
    embed(images, t, scratch, clock);
    project(0, t, scratch, clock);
  };
  team_.run(count * whole_.tiles.count, start);
  const std::size_t depth = net_.blocks.size();
  for (std::size_t layer = 0; layer < depth; ++layer) {
    combine(layer, count, times);
    if (reduces(layer)) reduce(layer, count, times);
    const bool last = layer + 1 == depth;
    const Extent& extent = outputs_of(layer);
    // Tokens without a query in the last layer are done.
    const std::int64_t live = last ? queries_of(layer) : extent.num_tokens;
    const std::int64_t live_tiles = (live + extent.tiles.rows - 1) / extent.tiles.rows;
    const auto block = [&](std::int64_t item, int thread) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
      StageClock clock = clock_of(scratch);
      Tile t = tile(item / live_tiles * extent.tiles.count + item % live_tiles, extent);
      t.rows = std::min(t.rows, live - t.first);
      finish_block(layer, t, scratch, clock);
      if (!last) project(layer + 1, t, scratch, clock);
    };
    team_.run(count * live_tiles, block);
  }
  const auto finish = [&](std::int64_t image, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    classify(image, logits + image * net_.num_classes, scratch);
    clock.lap(Stage::head);
  };
  team_.run(count, finish);
  if (times != nullptr) {
    for (const Scratch& scratch : scratch_) times->add(scratch.times);
  }
  if (observers.ranges != nullptr) {
    observers.ranges->resize(net_.blocks.size());
    for (Scratch& scratch : scratch_) {
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
                                                           const std::optional<TokenReduction>&
                                                               reduction) {
  if (network.storage == kernels::Storage::float32)
    return std::make_unique<Executor<float>>(network, std::move(geometry), batch, team, reduction);
  return std::make_unique<Executor<kernels::BFloat16>>(network, std::move(geometry), batch, team,
                                                       reduction);
}

}  // namespace hydrascope::model::inference
