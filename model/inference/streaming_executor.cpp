#include "model/inference/streaming_executor.h"

#include "kernels/device/cache_sizes.h"
#include "kernels/device/matrix_instructions.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/patchify/patchify.h"
#include "kernels/softmax_attention/softmax_attention.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace {

namespace hydra = kernels::hydra;
namespace linear_attention = kernels::linear_attention;
namespace softmax_attention = kernels::softmax_attention;
using kernels::AlignedBuffer;
using kernels::linear::Epilogue;
using kernels::linear::LinearParams;

/// Vectors of one thread start on cache lines of their own.
std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
class Executor final : public StreamingExecutor {
 public:
  Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
           kernels::device::ThreadTeam& team);
  void run(const ImageBatch& images, std::int64_t count, float* logits, StageTimes* times) override;
  [[nodiscard]] std::size_t workspace_bytes() const override { return workspace_bytes_; }
  [[nodiscard]] TileShape tiles() const override { return tiles_; }

 private:
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
    float* token;  ///< (2 D), for the head
    StageTimes times;
  };

  template <class Element>
  AlignedBuffer<Element> allocate(std::size_t count) {
    workspace_bytes_ += count * sizeof(Element);
    return AlignedBuffer<Element>(count);
  }
  [[nodiscard]] Tile tile(std::int64_t item) const;
  void embed(const ImageBatch& images, const Tile& tile, Scratch& scratch, StageClock& clock);
  void project(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  void combine(std::size_t layer, std::int64_t count, StageTimes* times);
  void finish_block(std::size_t layer, const Tile& tile, Scratch& scratch, StageClock& clock);
  const T* mix(std::size_t layer, const Tile& tile, Scratch& scratch);
  void classify(std::int64_t image, float* logits, Scratch& scratch);
  void pool(std::int64_t image, std::int64_t token, float* pooled, Scratch& scratch);

  void linear(const PackedLinear& layer, const T* x, std::int64_t x_stride, std::int64_t rows, T* y,
              std::int64_t y_stride, Epilogue epilogue) const {
    if (rows > 0)
      kernels::linear::linear(LinearParams<T>{x, x_stride, rows, &layer.weight, layer.bias.data(), y,
                                              y_stride, epilogue});
  }
  void layer_norm(const T* x, std::int64_t rows, T* y) const {
    kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<T>{
        x, dim_, rows, dim_, nullptr, nullptr, net_.layer_norm_eps, y, dim_});
  }
  [[nodiscard]] softmax_attention::Shape softmax_shape() const {
    return {num_tokens_, net_.num_heads, dim_ / net_.num_heads};
  }
  /// Tokens that have a query in `layer`.
  [[nodiscard]] std::int64_t queries_of(std::size_t layer) const {
    if (layer + 1 < net_.blocks.size() || net_.head.average) return num_tokens_;
    return std::max<std::int64_t>(1, net_.num_prefix);
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
  std::int64_t num_tokens_;
  TileShape tiles_;
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
  AlignedBuffer<T> module_keys_values_;  ///< (B, N, 2 D)
  AlignedBuffer<T> module_mixed_;        ///< (B, N, D)
  AlignedBuffer<std::byte> scratch_memory_;
  std::vector<Scratch> scratch_;
};

template <class T>
Executor<T>::Executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                      kernels::device::ThreadTeam& team)
    : net_(network),
      geometry_(std::move(geometry)),
      team_(team),
      batch_(batch),
      dim_(network.embed_dim),
      num_tokens_(network.num_prefix + geometry_.grid_rows * geometry_.grid_columns) {
  std::int64_t widest_query = dim_;
  std::int64_t widest = std::max(net_.hidden_dim, net_.patch_dim());
  for (const PackedBlock& block : net_.blocks) {
    widest_query = std::max(widest_query, block.query_width());
    widest = std::max(widest, block.key_value.weight.out());
  }
  const auto row_bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * dim_ + widest);
  using kernels::device::MatrixInstruction;
  const bool matrix_tiles =
      sizeof(T) == 2 && kernels::device::may_use(MatrixInstruction::amx_bf16);
  tiles_ = choose_tiles(num_tokens_, batch, row_bytes, kernels::device::cache_sizes().l2_bytes,
                        team.size(), matrix_tiles ? kMatrixTileRows : kStripRows);
  const auto images = static_cast<std::size_t>(batch);
  const auto num_tokens = static_cast<std::size_t>(num_tokens_);
  const auto dim = static_cast<std::size_t>(dim_);
  const auto tile_rows = static_cast<std::size_t>(tiles_.rows);
  const std::size_t num_tiles = images * static_cast<std::size_t>(tiles_.count);
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
      mixing_bytes = std::max(
          mixing_bytes, linear_attention::scratch_bytes<T>(linear->shape, tiles_.rows));
    } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
      softmax = true;
      mixing_bytes = std::max(mixing_bytes, softmax_attention::scratch_bytes<T>(softmax_shape()));
    } else if (std::holds_alternative<ModuleLayer>(block.mixing) && module_mixed_.empty()) {
      module_keys_values_ = allocate<T>(images * num_tokens * 2 * dim);
      module_mixed_ = allocate<T>(images * num_tokens * dim);
    }
  }
  linear_sums_ = allocate<float>(num_tiles * linear_sums_stride_);
  linear_state_ = allocate<std::byte>(images * linear_state_stride_);
  for (int parity = 0; softmax && parity < 2; ++parity) {
    keys_[parity] = allocate<T>(images * softmax_attention::keys_size<T>(softmax_shape()));
    values_[parity] = allocate<T>(images * softmax_attention::values_size<T>(softmax_shape()));
  }
  const std::size_t rows_bytes = padded(tile_rows * dim * sizeof(T));
  const std::size_t wide_bytes = padded(tile_rows * static_cast<std::size_t>(widest) * sizeof(T));
  const std::size_t token_bytes = padded(2 * dim * sizeof(float));
  const std::size_t thread_bytes = rows_bytes + wide_bytes + token_bytes + padded(mixing_bytes);
  scratch_memory_ = allocate<std::byte>(thread_bytes * static_cast<std::size_t>(team.size()));
  std::byte* memory = scratch_memory_.data();
  for (int thread = 0; thread < team.size(); ++thread, memory += thread_bytes) {
    scratch_.push_back({reinterpret_cast<T*>(memory), reinterpret_cast<T*>(memory + rows_bytes),
                        memory + rows_bytes + wide_bytes + token_bytes,
                        reinterpret_cast<float*>(memory + rows_bytes + wide_bytes),
                        {}});
  }
}

template <class T>
auto Executor<T>::tile(std::int64_t item) const -> Tile {
  const std::int64_t index = item % tiles_.count;
  const std::int64_t first = index * tiles_.rows;
  return {item / tiles_.count, index, first, std::min(tiles_.rows, num_tokens_ - first)};
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
    linear(images.pixels != nullptr ? net_.patch_pixels : net_.patch_tensor, scratch.wide, patch_dim,
           count, tokens(t) + skipped * dim_, dim_, Epilogue::add);
  }
  clock.lap(Stage::patch_embed);
}

template <class T>
void Executor<T>::project(std::size_t layer, const Tile& t, Scratch& scratch, StageClock& clock) {
  const PackedBlock& block = net_.blocks[layer];
  layer_norm(tokens(t), t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  const bool module = std::holds_alternative<ModuleLayer>(block.mixing);
  const std::int64_t width = block.key_value.weight.out();
  T* keys_values = module ? module_keys_values_.data() + (t.image * num_tokens_ + t.first) * width
                          : scratch.wide;
  linear(block.key_value, scratch.rows, dim_, t.rows, keys_values, width, Epilogue::store);
  const std::int64_t with_query = query_rows(layer, t);
  linear(block.query, scratch.rows, dim_, with_query, queries(layer, t), block.query_width(),
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
    p.sum = hydra_sums_.data() + (t.image * tiles_.count + t.index) * dim_;
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
             static_cast<std::size_t>(t.image * tiles_.count + t.index) *
                 linear_attention::sums_size(l->shape);
    p.scratch = scratch.mixing;
    linear_attention::clear(l->shape, p.sums);
    linear_attention::accumulate(p);
  } else if (std::holds_alternative<SoftmaxLayer>(block.mixing)) {
    const softmax_attention::Shape shape = softmax_shape();
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
  StageClock clock(times);
  if (const auto* h = std::get_if<HydraLayer>(&mixing)) {
    for (std::int64_t image = 0; image < count; ++image)
      hydra::combine(hydra_sums_.data() + image * tiles_.count * dim_, tiles_.count, dim_, 1.0F,
                     h->feature_scale.empty() ? nullptr : h->feature_scale.data(),
                     hydra_global_.data() + image * dim_);
  } else if (const auto* l = std::get_if<LinearLayer>(&mixing)) {
    const std::int64_t heads = l->shape.num_heads;
    const std::size_t sums = linear_attention::sums_size(l->shape);
    const auto combine_head = [&](std::int64_t item, int) {
      const auto image = static_cast<std::size_t>(item / heads);
      linear_attention::combine<T>(
          l->shape, linear_sums_.data() + image * static_cast<std::size_t>(tiles_.count) * sums,
          tiles_.count, item % heads, 1, linear_state_.data() + image * linear_state_stride_);
    };
    team_.run(count * heads, combine_head);
  } else if (const auto* m = std::get_if<ModuleLayer>(&mixing)) {
    m->mix(count, geometry_.grid_rows, geometry_.grid_columns, queries_.data(), module_keys_values_.data(), module_mixed_.data());
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
    const softmax_attention::Shape shape = softmax_shape();
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
  linear(block.proj, mixed, dim_, t.rows, x, dim_, Epilogue::add);
  clock.lap(Stage::proj);
  layer_norm(x, t.rows, scratch.rows);
  clock.lap(Stage::layer_norm);
  linear(block.fc1, scratch.rows, dim_, t.rows, scratch.wide, net_.hidden_dim, Epilogue::gelu);
  linear(block.fc2, scratch.wide, net_.hidden_dim, t.rows, x, dim_, Epilogue::add);
  clock.lap(Stage::mlp);
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
                      StageTimes* times) {
  for (Scratch& scratch : scratch_) scratch.times = {};
  const auto clock_of = [&](Scratch& scratch) {
    return StageClock(times != nullptr ? &scratch.times : nullptr);
  };
  const auto start = [&](std::int64_t item, int thread) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    StageClock clock = clock_of(scratch);
    const Tile t = tile(item);
    embed(images, t, scratch, clock);
    project(0, t, scratch, clock);
  };
  team_.run(count * tiles_.count, start);
  const std::size_t depth = net_.blocks.size();
  for (std::size_t layer = 0; layer < depth; ++layer) {
    combine(layer, count, times);
    const bool last = layer + 1 == depth;
    // Tokens without a query in the last layer are done.
    const std::int64_t live = last ? queries_of(layer) : num_tokens_;
    const std::int64_t live_tiles = (live + tiles_.rows - 1) / tiles_.rows;
    const auto block = [&](std::int64_t item, int thread) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
      StageClock clock = clock_of(scratch);
      Tile t = tile(item / live_tiles * tiles_.count + item % live_tiles);
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
}

}  // namespace

std::unique_ptr<StreamingExecutor> StreamingExecutor::make(const PackedNetwork& network,
                                                           ImageGeometry geometry,
                                                           std::int64_t batch,
                                                           kernels::device::ThreadTeam& team) {
  if (network.storage == kernels::Storage::float32)
    return std::make_unique<Executor<float>>(network, std::move(geometry), batch, team);
  return std::make_unique<Executor<kernels::BFloat16>>(network, std::move(geometry), batch, team);
}

}  // namespace hydrascope::model::inference
