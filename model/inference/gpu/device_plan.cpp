#include "model/inference/gpu/device_plan.h"

#include "kernels/error.h"
#include "kernels/layer_norm/layer_norm_cuda.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {

namespace lt = kernels::linear::cuda;

namespace {

template <class T>
T* data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

}  // namespace

DevicePlan::DevicePlan(DeviceWeights& weights, DevicePlanOptions options, lt::Products& products,
                       const Shape& shape)
    : weights_(weights),
      options_(std::move(options)),
      products_(products),
      recorder_(options_.stream),
      softmax_(options_.stream, options_.deterministic),
      shape_(shape) {
  const c10::InferenceMode inference;
  const VitConfig& config = weights_.parts.config;
  const std::int64_t patch = config.patch_size;
  if (shape.height <= 0 || shape.width <= 0 || shape.height % patch != 0 ||
      shape.width % patch != 0)
    throw Error(ErrorCode::internal,
                "expected H and W multiples of " + std::to_string(patch) + ", found " +
                    std::to_string(shape.height) + "x" + std::to_string(shape.width),
                config.arch);
  batch_ = shape.batch;
  grid_ = config.token_grid_of_pixels(shape.height, shape.width);
  const Embeddings embeddings = make_embeddings(weights_.parts, grid_.rows, grid_.columns);
  if (embeddings.prefix.defined())
    prefix_ = embeddings.prefix.to(scalar_type()).to(weights_.device);
  position_ = embeddings.position.to(scalar_type()).to(weights_.device).contiguous();
  with_storage(weights_.type, [this]<class T>() { build<T>(); });
}

template <class T>
void DevicePlan::build() {
  const VitConfig& config = weights_.parts.config;
  const std::int64_t tokens = num_tokens();
  const std::int64_t dim = config.embed_dim;
  const at::TensorOptions options = at::TensorOptions(weights_.device).dtype(scalar_type());
  const at::TensorOptions bytes = options.dtype(at::kByte);

  std::int64_t widest = weights_.patch_embed.in();
  std::int64_t query_width = 0;
  DeviceMixing::Room most;
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) {
    const DeviceBlock& block = weights_.blocks[layer];
    widest = std::max({widest, block.qkv.out(), block.fc1.out()});
    query_width = std::max(query_width, block.query_width);
    if (!block.mixing) continue;
    const DeviceMixing::Room room = block.mixing->room({batch_, tokens, grid_});
    most.state = std::max(most.state, room.state);
    most.workspace = std::max(most.workspace, room.workspace);
    most.counters = std::max(most.counters, room.counters);
  }
  x_ = at::empty({batch_, tokens, dim}, options);
  normed_ = at::empty_like(x_);
  mixed_ = at::empty_like(x_);
  wide_ = at::empty({batch_, tokens, widest}, options);
  queries_ = at::empty({batch_, weights_.num_prefix, query_width}, options);
  ends_ = at::empty({batch_, weights_.num_prefix, dim}, options);
  global_ = at::empty({static_cast<std::int64_t>(most.state)}, bytes);
  workspace_ = at::empty({static_cast<std::int64_t>(most.workspace)}, bytes);
  counters_ = at::zeros({static_cast<std::int64_t>(most.counters)}, bytes);
  pooled_ = at::empty({config.distilled ? 2 : 1, batch_, dim}, options.dtype(at::kFloat));
  logits_ = at::empty({batch_, config.num_classes}, options.dtype(at::kFloat));
  if (!options_.trace_layers.empty())
    trace_ = at::empty({batch_, std::ssize(options_.trace_layers), num_tokens(), dim}, options);

  T* x = data<T>(x_);
  if (prefix_.defined())
    add_foreign([this] { x_.narrow(1, 0, weights_.num_prefix).copy_(prefix_); });
  // The patches of all pictures lie before the patches of all overviews.
  const auto add_embedding = [&](std::int64_t first, std::int64_t count) {
    ProductCall embed;
    embed.linear = &weights_.patch_embed;
    embed.x = data<T>(wide_) + batch_ * first * weights_.patch_embed.in();
    embed.y = x + (weights_.num_prefix + first) * dim;
    embed.c = data<T>(position_) + first * dim;
    embed.images = batch_;
    embed.rows = count;
    embed.x_image_stride = count * weights_.patch_embed.in();
    embed.y_image_stride = tokens * dim;
    add_product(embed);
  };
  add_embedding(0, grid_.num_patches());
  if (grid_.num_overview() > 0) add_embedding(grid_.num_patches(), grid_.num_overview());
  for (std::size_t layer = 0; layer < weights_.blocks.size(); ++layer) add_block<T>(layer);
}

template <class T>
void DevicePlan::add_norm(const T* x, std::int64_t rows, T* y) {
  const VitConfig& config = weights_.parts.config;
  kernels::layer_norm::cuda::LayerNormParams<T> params{};
  params.x = x;
  params.x_stride = config.embed_dim;
  params.rows = rows;
  params.dim = config.embed_dim;
  params.eps = static_cast<float>(config.layer_norm_eps);
  params.y = y;
  params.y_stride = config.embed_dim;
  add([params, stream = options_.stream] {
    kernels::layer_norm::cuda::layer_norm(params, stream);
  });
}

template <class T>
void DevicePlan::add_block(std::size_t layer) {
  const VitConfig& config = weights_.parts.config;
  const DeviceBlock& block = weights_.blocks[layer];
  const std::int64_t dim = config.embed_dim;
  const std::int64_t tokens = num_tokens();
  const std::int64_t width = block.qkv.out();
  const bool is_last = layer + 1 == weights_.blocks.size();
  // A module mixes all tokens or none.
  const bool only_ends = is_last && config.global_pool != Pooling::avg && weights_.num_prefix > 0 &&
                         block.mixing != nullptr;
  T* x = data<T>(x_);
  T* normed = data<T>(normed_);
  T* wide = data<T>(wide_);
  const auto& traced = options_.trace_layers;
  if (const auto at = std::ranges::find(traced, static_cast<std::int64_t>(layer));
      at != traced.end())
    add_foreign([this, slot = at - traced.begin()] { trace_.select(1, slot).copy_(x_); });
  add_norm<T>(x, batch_ * tokens, normed);

  const auto all = [&](const DeviceLinear& weights, const T* from, T* to) {
    ProductCall call;
    call.linear = &weights;
    call.x = from;
    call.y = to;
    call.images = batch_;
    call.rows = tokens;
    call.x_image_stride = tokens * weights.in();
    call.y_image_stride = tokens * weights.out();
    return call;
  };
  Tokens rest{x, tokens, tokens * dim};
  if (only_ends) {
    // Linears of their own: steps keep pointers to them.
    const auto part = [&](std::int64_t first, std::int64_t count) {
      parts_.push_back(std::make_unique<DeviceLinear>(DeviceLinear{
          block.qkv.weight.narrow(0, first, count), block.qkv.bias.narrow(0, first, count)}));
      return parts_.back().get();
    };
    T* queries = data<T>(queries_);
    ProductCall call = all(*part(0, block.query_width), normed, queries);
    call.rows = weights_.num_prefix;
    call.y_image_stride = weights_.num_prefix * block.query_width;
    call.x_image_stride = tokens * dim;
    add_product(call);
    add_product(all(*part(block.query_width, width - block.query_width), normed, wide));
    rest = {data<T>(ends_), weights_.num_prefix, weights_.num_prefix * dim};
    add_mixing<T>(layer, rest, queries, block.query_width, wide, width - block.query_width);
  } else {
    add_product(all(block.qkv, normed, wide));
    add_mixing<T>(layer, rest, wide, width, wide + block.query_width, width);
  }

  T* y = static_cast<T*>(rest.x);
  ProductCall call;
  add_norm<T>(y, batch_ * rest.count, normed);
  call.images = batch_;
  call.rows = rest.count;
  call.linear = &block.fc1;
  call.x = normed;
  call.x_image_stride = rest.count * dim;
  call.y = wide;
  call.y_image_stride = rest.count * block.fc1.out();
  call.gelu = true;
  add_product(call);
  call.linear = &block.fc2;
  call.x = wide;
  call.x_image_stride = call.y_image_stride;
  call.y = y;
  call.c = y;
  call.y_image_stride = call.c_image_stride = rest.image_stride;
  call.gelu = false;
  add_product(call);
  if (is_last) add_head<T>(rest, only_ends ? ends_ : x_);
}

template <class T>
void DevicePlan::add_mixing(std::size_t layer, const Tokens& rest, const T* q,
                            std::int64_t q_stride, const T* kv, std::int64_t kv_stride) {
  const VitConfig& config = weights_.parts.config;
  const DeviceBlock& block = weights_.blocks[layer];
  const std::int64_t dim = config.embed_dim;
  const std::int64_t tokens = num_tokens();
  const std::int64_t queries = rest.count;
  const T* v = kv + (block.qkv.out() - block.query_width - dim);
  T* y = data<T>(mixed_);

  ProductCall proj;
  proj.linear = &block.proj;
  proj.x = y;
  proj.x_image_stride = queries * dim;
  proj.c = x_.const_data_ptr();
  proj.c_image_stride = tokens * dim;
  proj.y = rest.x;
  proj.y_image_stride = rest.image_stride;
  proj.images = batch_;
  proj.rows = queries;

  const auto softmax_scale = block.mixing ? block.mixing->softmax_scale(grid_) : std::nullopt;
  if (block.mixing == nullptr || softmax_scale)
    return add_foreign_mixing<T>(layer, proj, q, q_stride, kv, kv_stride, softmax_scale);
  add(block.mixing->launches({{batch_, queries, grid_},
                              q,
                              q_stride,
                              kv,
                              v,
                              kv_stride,
                              y,
                              data<float>(global_),
                              workspace_.mutable_data_ptr(),
                              counters_.mutable_data_ptr(),
                              options_.stream}));
  add_product(proj);
}

template <class T>
void DevicePlan::add_foreign_mixing(std::size_t layer, ProductCall proj, const T* q,
                                    std::int64_t q_stride, const T* kv, std::int64_t kv_stride,
                                    std::optional<double> softmax_scale) {
  const VitConfig& config = weights_.parts.config;
  const DeviceBlock& block = weights_.blocks[layer];
  const std::int64_t dim = config.embed_dim;
  const T* v = kv + (block.qkv.out() - block.query_width - dim);
  // LibTorch's allocator chooses the place of its result, so proj reads it there.
  const std::int64_t heads = config.num_heads;
  const auto rows = [&](const T* from, std::int64_t stride, std::int64_t count) {
    return split_heads(at::from_blob(const_cast<T*>(from), {batch_, count, dim},
                                     {count * stride, stride, 1}, x_.options()),
                       heads);
  };
  const at::Tensor q_heads = rows(q, q_stride, proj.rows);
  const at::Tensor k_heads = rows(kv, kv_stride, num_tokens());
  const at::Tensor v_heads = rows(v, kv_stride, num_tokens());
  std::function<at::Tensor()> mix;
  if (softmax_scale) {
    mix = [this, q_heads, k_heads, v_heads, scale = *softmax_scale] {
      const at::Tensor scaled = scale == 1 ? q_heads : q_heads * scale;
      return merge_heads(softmax_.attend(scaled, k_heads, v_heads));
    };
  } else {
    TokenMixer& mixer = weights_.parts.mixer(static_cast<std::int64_t>(layer));
    mix = [this, q_heads, k_heads, v_heads, &mixer] {
      return mixer.mix(q_heads, k_heads, v_heads, grid_, weights_.chosen_kernels);
    };
  }
  // A result may be a view that begins anywhere; it is then copied to memory so aligned.
  constexpr int kTensorAlignment = 64;  // of LibTorch's allocators: 64 on the CPU, 512 on a GPU
  proj.x_alignment = kTensorAlignment;
  const int number = products_.plan(proj.shape(weights_.type));
  add_foreign([this, mix, proj, number] {
    at::Tensor result = mix().to(scalar_type()).contiguous();
    if (lt::alignment_of(result.const_data_ptr()) < kTensorAlignment) result = result.clone();
    run(number, proj, result.const_data_ptr());
  });
}

void DevicePlan::run(int product, const ProductCall& call, const void* x) {
  products_.run(product, x, call.linear->weight.const_data_ptr(),
                call.linear->bias.const_data_ptr(), call.c, call.y);
}

void DevicePlan::add_product(const ProductCall& call) {
  add([this, call, number = products_.plan(call.shape(weights_.type))] {
    run(number, call, call.x);
  });
  if (call.gelu_apart())
    add_foreign([y = at::from_blob(call.y, {call.images * call.rows, call.linear->out()},
                                   wide_.options())]() mutable { at::gelu_(y); });
}

template <class T>
void DevicePlan::add_head(const Tokens& tokens, const at::Tensor& x) {
  const VitConfig& config = weights_.parts.config;
  const std::int64_t dim = config.embed_dim;
  const bool norm_first = config.global_pool == Pooling::avg && !config.fc_norm;
  if (norm_first)
    add_norm<T>(static_cast<const T*>(tokens.x), batch_ * tokens.count, data<T>(normed_));
  std::vector<std::pair<int, ProductCall>> calls;
  for (std::int64_t head = 0; config.num_classes > 0 && head < pooled_.size(0); ++head) {
    ProductCall call;
    call.linear = head == 0 ? &weights_.classifier : &weights_.distilled;
    call.x = data<float>(pooled_) + head * batch_ * dim;
    call.x_image_stride = dim;
    call.images = batch_;
    call.rows = 1;
    call.y = logits_.mutable_data_ptr();
    call.y_image_stride = call.c_image_stride = config.num_classes;
    call.c = head == 0 ? nullptr : logits_.const_data_ptr();
    calls.emplace_back(products_.plan(call.shape(weights_.type)), call);
  }
  add_foreign([this, x = norm_first ? normed_ : x, calls] {
    pool(x);
    for (const auto& [number, call] : calls) run(number, call, call.x);
  });
}

void DevicePlan::pool(const at::Tensor& x) {
  const VitConfig& config = weights_.parts.config;
  const auto norm = [&](const at::Tensor& rows) {
    return at::layer_norm(rows.to(at::kFloat), {config.embed_dim}, weights_.norm_weight,
                          weights_.norm_bias, config.layer_norm_eps);
  };
  if (config.global_pool == Pooling::avg) {
    const at::Tensor mean = x.slice(1, weights_.num_prefix).mean(1, /*keepdim=*/false, at::kFloat);
    // Weight and bias of a norm before the mean are the same after it.
    pooled_[0].copy_(config.fc_norm ? norm(mean)
                                    : mean * weights_.norm_weight + weights_.norm_bias);
  } else {
    for (std::int64_t head = 0; head < pooled_.size(0); ++head)
      pooled_[head].copy_(norm(x.select(1, head)));
  }
}

void DevicePlan::patchify(const at::Tensor& images) { patches().cut(images); }
void DevicePlan::patchify(const PixelImages& images) { patches().cut(images); }

void DevicePlan::run() {
  const c10::InferenceMode inference;
  std::size_t stretch = 0;
  for (std::size_t first = 0; first < steps_.size(); ++stretch) {
    std::size_t end = first;
    while (end < steps_.size() && steps_[end].recordable) ++end;
    if (end > first)
      recorder_.run(stretch, [&] {
        for (std::size_t i = first; i < end; ++i) steps_[i].run();
      });
    if (end < steps_.size()) steps_[end++].run();
    first = end;
  }
}

}  // namespace hydrascope::model::inference
