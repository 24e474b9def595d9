#include "model/attention/projection/token_projection.h"

#include "kernels/error.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

class DenseProjection final : public TokenProjection {
 public:
  DenseProjection(ProjectionWeights weights, const TokenGrid& training)
      : weights_(std::move(weights)), num_tokens_(training.num_tokens()) {}
  [[nodiscard]] Tensor keys(const Tensor& k, const TokenGrid& grid) const override {
    return shortened(k, weights_.keys, grid);
  }
  [[nodiscard]] Tensor values(const Tensor& v, const TokenGrid& grid) const override {
    return shortened(v, weights_.values, grid);
  }
  [[nodiscard]] Tensor lengthened(const Tensor& weights, const TokenGrid&) const override {
    return weights.matmul(weights_.values.to(weights.scalar_type()));
  }

 private:
  [[nodiscard]] Tensor shortened(const Tensor& x, const Tensor& projection,
                                 const TokenGrid& grid) const {
    if (grid.num_tokens() != num_tokens_) {
      throw Error(ErrorCode::invalid_argument,
                  "made for " + std::to_string(num_tokens_) + " tokens, found " +
                      std::to_string(grid.num_tokens()),
                  "linformer",
                  "`attn_opt`=linformer.projection=patches, pool, max or conv takes any "
                  "size");
    }
    return projection.to(x.scalar_type()).matmul(x);
  }

  ProjectionWeights weights_;
  std::int64_t num_tokens_;
};

class ResizedProjection final : public TokenProjection {
 public:
  ResizedProjection(ProjectionWeights weights, const TokenGrid& training)
      : weights_(std::move(weights)), training_(training) {}
  [[nodiscard]] Tensor keys(const Tensor& k, const TokenGrid& grid) const override {
    return shortened(k, weights_.keys, grid);
  }
  [[nodiscard]] Tensor values(const Tensor& v, const TokenGrid& grid) const override {
    return shortened(v, weights_.values, grid);
  }
  [[nodiscard]] Tensor lengthened(const Tensor& weights, const TokenGrid& grid) const override {
    if (grid.num_patches() == 0) return weights;
    const Tensor projection = weights_.values.to(weights.scalar_type());
    const Tensor patches = weights.slice(3, grid.num_prefix).matmul(resized(projection, grid));
    return at::cat({weights.narrow(3, 0, grid.num_prefix), patches}, 3);
  }

 private:
  [[nodiscard]] Tensor shortened(const Tensor& x, const Tensor& projection,
                                 const TokenGrid& grid) const {
    const Tensor prefix = x.narrow(2, 0, grid.num_prefix);
    if (grid.num_patches() == 0) return prefix;
    const Tensor patches = x.narrow(2, grid.num_prefix, grid.num_patches());
    return at::cat({prefix, resized(projection.to(x.scalar_type()), grid).matmul(patches)}, 2);
  }

  [[nodiscard]] Tensor resized(const Tensor& projection, const TokenGrid& grid) const {
    if (grid.rows == training_.rows && grid.columns == training_.columns) return projection;
    const std::int64_t length = projection.size(0);
    const Tensor image = projection.view({1, length, training_.rows, training_.columns});
    const Tensor larger =
        at::upsample_bicubic2d(image, {grid.rows, grid.columns}, /*align_corners=*/false)
            .view({length, -1});
    const Tensor before = projection.sum(-1, /*keepdim=*/true);
    const Tensor after = larger.sum(-1, /*keepdim=*/true);
    // A row that sums to nothing has no factor that keeps its sum.
    constexpr double kLeast = 1e-6;
    const Tensor factor = at::where(after.abs() < kLeast, at::ones_like(after), before / after);
    return larger * factor;
  }

  ProjectionWeights weights_;
  TokenGrid training_;
};

class CellProjection final : public TokenProjection {
 public:
  CellProjection(std::int64_t length, PoolBy of_keys) : length_(length), of_keys_(of_keys) {}
  [[nodiscard]] Tensor keys(const Tensor& k, const TokenGrid& grid) const override {
    return pool_patches(k, grid, length_, of_keys_);
  }
  [[nodiscard]] Tensor values(const Tensor& v, const TokenGrid& grid) const override {
    return pool_patches(v, grid, length_);
  }
  [[nodiscard]] Tensor lengthened(const Tensor& weights, const TokenGrid& grid) const override {
    return unpool_patches(weights, grid, length_);
  }

 private:
  std::int64_t length_;
  PoolBy of_keys_;
};

class KernelProjection final : public TokenProjection {
 public:
  KernelProjection(ProjectionWeights kernels, std::int64_t length)
      : kernels_(std::move(kernels)), length_(length) {}
  [[nodiscard]] Tensor keys(const Tensor& k, const TokenGrid& grid) const override {
    return shortened(k, kernels_.keys, grid);
  }
  [[nodiscard]] Tensor values(const Tensor& v, const TokenGrid& grid) const override {
    return shortened(v, kernels_.values, grid);
  }
  [[nodiscard]] Tensor lengthened(const Tensor& weights, const TokenGrid& grid) const override {
    if (grid.num_patches() == 0) return weights;
    const Tensor kernel = kernels_.values.to(weights.scalar_type());
    return unpool_patches(weights, grid, length_) *
           cell_weights(kernel, grid, length_).transpose(1, 2);
  }

 private:
  [[nodiscard]] Tensor shortened(const Tensor& x, const Tensor& kernel,
                                 const TokenGrid& grid) const {
    if (grid.num_patches() == 0) return x;
    return pool_patches(x * cell_weights(kernel.to(x.scalar_type()), grid, length_), grid, length_);
  }

  ProjectionWeights kernels_;
  std::int64_t length_;
};

}  // namespace

std::unique_ptr<TokenProjection> dense_projection(ProjectionWeights weights,
                                                  const TokenGrid& training) {
  return std::make_unique<DenseProjection>(std::move(weights), training);
}

std::unique_ptr<TokenProjection> resized_projection(ProjectionWeights weights,
                                                    const TokenGrid& training) {
  return std::make_unique<ResizedProjection>(std::move(weights), training);
}

std::unique_ptr<TokenProjection> cell_projection(std::int64_t length, PoolBy of_keys) {
  return std::make_unique<CellProjection>(length, of_keys);
}

std::unique_ptr<TokenProjection> kernel_projection(ProjectionWeights kernels, std::int64_t length) {
  return std::make_unique<KernelProjection>(std::move(kernels), length);
}

}  // namespace hydrascope::model
