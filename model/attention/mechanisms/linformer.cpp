// Linformer (Wang et al. 2020, Linformer: Self-Attention with Linear Complexity, arXiv 2006.04768,
// equation 7): keys and values are projected from N tokens to m,
//   y = softmax(q (E k)^T / sqrt(d)) (Fp v),      E, Fp (m, N)
// Learned projections are tied to one N. For other resolutions this project chooses:
//   dense    refuse, naming both numbers of tokens
//   patches  project the patches only, prefix tokens stay; at another grid each row of E is resized
//            as an image (bicubic) and rescaled so that its sum is kept
//   pool     E and Fp average cells of the patch grid; nothing is learned
//   max      keys are the largest of a cell, feature by feature; values are averages, since maxima
//            of values would have no map
//   conv     averages of cells, weighted by a learned kernel (s, s) of each head that is laid over every
//            cell: a convolution whose stride is its kernel if cells are s patches wide. In other
//            cells a patch has the weight of its place in the cell, so that m stays as it is
#include "kernels/error.h"
#include "model/attention/attention.h"
#include "model/attention/projection/patch_pooling.h"
#include "model/attention/token_grid.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Keys and values of N tokens become m keys and m values, E k and F v: x (B, H, N, d) of the compute
/// type -> (B, H, m, d). Only dense projections mix prefix tokens in.
class TokenProjection {
 public:
  TokenProjection() = default;
  TokenProjection(const TokenProjection&) = delete;
  TokenProjection& operator=(const TokenProjection&) = delete;
  virtual ~TokenProjection() = default;

  [[nodiscard]] virtual Tensor keys(const Tensor& k, const TokenGrid& grid) const = 0;
  [[nodiscard]] virtual Tensor values(const Tensor& v, const TokenGrid& grid) const = 0;
  /// Weights of the m values on the N tokens, w F: (B, H, n, m) -> (B, H, n, N).
  [[nodiscard]] virtual Tensor lengthened(const Tensor& weights, const TokenGrid& grid) const = 0;
};

/// The learned E and F, on the device and in the type of the module; both may be one tensor.
struct ProjectionWeights {
  Tensor keys, values;
};

/// (m, N) of all tokens. Another number of tokens is refused.
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

/// (m, R C) of the patches: at another grid each row is resized as an image, bicubic, and rescaled so
/// that its sum is kept.
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

/// About `length` cells of the patch grid: averages of values, averages or maxima of keys.
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

/// Averages of such cells, each patch weighted by a kernel (H, s, s) that is laid over its cell.
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

enum class Projection { dense, patches, pool, max, conv };

const ChoiceOption<Projection> kProjection(
    "projection",
    {{"dense", Projection::dense},
     {"patches", Projection::patches},
     {"pool", Projection::pool},
     {"max", Projection::max},
     {"conv", Projection::conv}},
    "learned for all tokens at one size; learned for the patches and resized; averages of grid "
    "cells; largest keys of cells; cells weighted by a learned kernel");
const IntegerOption kLength("length", 64, 1, 65536, "projected tokens m");
const SwitchOption kShareKv("share_kv", false, "one projection for keys and values");

/// Patches along an edge of the kernel: the edge of a square cell at the training size, rounded up.
std::int64_t kernel_side(const TokenGrid& training, std::int64_t length) {
  const double patches = static_cast<double>(training.num_patches()) / static_cast<double>(length);
  return std::max<std::int64_t>(1, std::llround(std::ceil(std::sqrt(patches))));
}

/// Whether the projection is to cells of the grid.
bool pools(const MechanismOptions& options) {
  return kProjection(options) != Projection::dense && kProjection(options) != Projection::patches;
}

std::unique_ptr<TokenProjection> projection_of(const TokenMixerArguments& arguments) {
  const Projection kind = kProjection(arguments.options);
  const std::int64_t length = kLength(arguments.options);
  const TokenGrid& training = arguments.training_grid;
  if (kind == Projection::pool) return std::make_unique<CellProjection>(length, PoolBy::average);
  if (kind == Projection::max) return std::make_unique<CellProjection>(length, PoolBy::maximum);
  const auto add = [&](const char* name) {
    if (kind == Projection::conv) {
      const std::int64_t side = kernel_side(training, length);
      return arguments.add_parameter(name, at::ones({arguments.num_heads, side, side}));
    }
    const std::int64_t tokens =
        kind == Projection::dense ? training.num_tokens() : training.num_patches();
    const double std = 1 / std::sqrt(static_cast<double>(length));
    return arguments.add_parameter(name, at::randn({length, tokens}) * std);
  };
  ProjectionWeights weights;
  weights.keys = add(kShareKv(arguments.options) ? "projection.weight" : "projection.k");
  weights.values = kShareKv(arguments.options) ? weights.keys : add("projection.v");
  if (kind == Projection::conv)
    return std::make_unique<KernelProjection>(std::move(weights), length);
  if (kind == Projection::dense)
    return std::make_unique<DenseProjection>(std::move(weights), training);
  return std::make_unique<ResizedProjection>(std::move(weights), training);
}

class LinformerMixer : public TokenMixer {
 public:
  explicit LinformerMixer(std::unique_ptr<TokenProjection> projection)
      : projection_(std::move(projection)) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    const Tensor queries = to_compute_type(q);
    const Tensor keys = projection_->keys(to_compute_type(k), grid);
    const Tensor values = projection_->values(to_compute_type(v), grid);
    const Tensor y = kernels == Kernels::reference
                         ? scaled_products(queries, keys).softmax(-1).matmul(values)
                         : at::scaled_dot_product_attention(queries, keys, values);
    return merge_heads(y).to(v.scalar_type());
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    const Tensor keys = projection_->keys(to_compute_type(k), grid);
    const Tensor queries = to_compute_type(q.narrow(2, first, count));
    return projection_->lengthened(scaled_products(queries, keys).softmax(-1), grid);
  }

 private:
  std::unique_ptr<TokenProjection> projection_;
};

const MechanismRegistration kLinformer({
    .name = "linformer",
    .aliases = {},
    .summary = "softmax over keys and values projected to m tokens, O(N D m)",
    .citation = "Wang et al. 2020, Linformer: Self-Attention with Linear Complexity, arXiv "
                "2006.04768",
    .options = {kProjection, kLength, kShareKv},
    .parameters = {{"projection.{k,v}",
                    "(m, N), (m, R C) with projection=patches, (H, s, s) with projection=conv",
                    "normal (1 / sqrt(m)), ones with projection=conv"},
                   {"projection.weight", "the same; instead, with share_kv=on",
                    "normal (1 / sqrt(m)), ones with projection=conv"}},
    .map_definition = "A = softmax(q (E k)^T / sqrt(d)) Fp: signed, not stochastic",
    .permutation_equivariant = false,
    .fixed_num_tokens = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions& options) {
          const auto n = static_cast<double>(size.num_tokens());
          const auto d = static_cast<double>(size.embed_dim);
          const auto bytes = static_cast<double>(size.bytes_per_element);
          auto m = static_cast<double>(kLength(options));
          if (pools(options)) {  // averages: one addition an element
            m = std::min(m, n);
            return MixerCost{2 * (2 * n * m * d + 2 * n * d), 4 * n * d * bytes};
          }
          const double projections = kShareKv(options) ? 1 : 2;
          return MixerCost{2 * 4 * n * m * d, (4 * n * d + projections * m * n) * bytes};
        },
    .added_elements =
        [](const MixerSize& size, const MechanismOptions& options) {
          const std::int64_t side = kernel_side(size.grid, kLength(options));
          const std::int64_t elements = kProjection(options) == Projection::conv
                                            ? size.num_heads * side * side
                                        : pools(options) ? 0
                                                         : kLength(options) * size.num_tokens();
          return (kShareKv(options) ? 1.0 : 2.0) * static_cast<double>(elements);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<LinformerMixer>(projection_of(arguments));
    },
});

}  // namespace
}  // namespace hydrascope::model
