// Linformer (Wang et al. 2020, Linformer: Self-Attention with Linear Complexity, arXiv 2006.04768,
// equation 7): keys and values are projected from N tokens to m,
//   y = softmax(q (E k)^T / sqrt(d)) (Fp v),      E, Fp (m, N)
// Learned projections are tied to one N. What another resolution means is this project's:
//   dense    refuse, naming both numbers of tokens
//   patches  project the patches only, prefix tokens stay; at another grid each row of E is resized
//            as an image (bicubic) and rescaled so that its sum is kept
//   pool     E and Fp average cells of the patch grid; nothing is learned
//   max      keys are the largest of a cell, feature by feature, values the average: of values that
//            were the largest there would be no map
//   conv     averages of cells, weighted by a learned kernel (s, s) of each head that is laid over every
//            cell: a convolution whose stride is its kernel where cells are s patches wide. Elsewhere
//            a patch has the weight of its place in the cell, so that m stays as it is
#include "kernels/error.h"
#include "model/attention/attention.h"
#include "model/attention/patch_pooling.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
namespace {

using at::Tensor;

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

/// Patches along an edge of the kernel: those of a square cell at the training size, rounded up.
std::int64_t kernel_side(const TokenGrid& training, std::int64_t length) {
  const double patches = static_cast<double>(training.num_patches()) / static_cast<double>(length);
  return std::max<std::int64_t>(1, std::llround(std::ceil(std::sqrt(patches))));
}

/// Whether cells of the grid are what is projected to.
bool pools(const MechanismOptions& options) {
  return kProjection(options) != Projection::dense && kProjection(options) != Projection::patches;
}

class LinformerMixer : public TokenMixer {
 public:
  explicit LinformerMixer(const TokenMixerArguments& arguments)
      : training_(arguments.training_grid),
        projection_(kProjection(arguments.options)),
        length_(kLength(arguments.options)) {
    if (projection_ == Projection::pool || projection_ == Projection::max) return;
    const bool is_kernel = projection_ == Projection::conv;
    const std::int64_t side = kernel_side(training_, length_);
    const std::int64_t tokens = projection_ == Projection::dense
                                    ? training_.num_tokens()
                                    : training_.rows * training_.columns;
    const auto add = [&](const char* name) {
      if (is_kernel)
        return arguments.add_parameter(name, at::ones({arguments.num_heads, side, side}));
      const double std = 1 / std::sqrt(static_cast<double>(length_));
      return arguments.add_parameter(name, at::randn({length_, tokens}) * std);
    };
    if (kShareKv(arguments.options)) {
      of_keys_ = of_values_ = add("projection.weight");
    } else {
      of_keys_ = add("projection.k");
      of_values_ = add("projection.v");
    }
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    const Tensor keys = short_keys(k, grid);
    const Tensor values = shorten(to_compute_type(v), of_values_, grid);
    const Tensor queries = to_compute_type(q);
    const Tensor y = kernels == Kernels::reference
                         ? weights(queries, keys).matmul(values)
                         : at::scaled_dot_product_attention(queries, keys, values);
    return merge_heads(y).to(v.scalar_type());
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    const Tensor keys = short_keys(k, grid);
    return lengthen(weights(to_compute_type(q.narrow(2, first, count)), keys), grid);
  }

 private:
  [[nodiscard]] static Tensor weights(const Tensor& q, const Tensor& k) {
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    return (q * scale).matmul(k.transpose(-2, -1)).softmax(-1);
  }

  [[nodiscard]] Tensor short_keys(const Tensor& k, const TokenGrid& grid) const {
    if (projection_ != Projection::max) return shorten(to_compute_type(k), of_keys_, grid);
    return pool_patches(to_compute_type(k), grid, length_, PoolBy::maximum);
  }

  /// x (B, H, N, d) -> (B, H, m, d), prefix tokens in front where they stay.
  [[nodiscard]] Tensor shorten(const Tensor& x, const Tensor& projection,
                               const TokenGrid& grid) const {
    if (projection_ == Projection::pool || projection_ == Projection::max)
      return pool_patches(x, grid, length_);
    if (projection_ == Projection::conv) {
      if (grid.num_patches() == 0) return x;
      return pool_patches(x * cell_weights(projection.to(x.scalar_type()), grid, length_), grid,
                          length_);
    }
    if (projection_ == Projection::dense) {
      if (grid.num_tokens() != training_.num_tokens()) {
        throw Error(
            ErrorCode::invalid_argument,
            "made for " + std::to_string(training_.num_tokens()) + " tokens, found " +
                std::to_string(grid.num_tokens()),
            "linformer",
            "`attention_options` linformer.projection=patches, pool, max or conv takes any size");
      }
      return projection.to(x.scalar_type()).matmul(x);
    }
    const std::int64_t patches = grid.rows * grid.columns;
    const Tensor prefix = x.narrow(2, 0, grid.num_prefix);
    if (patches == 0) return prefix;
    return at::cat({prefix, resized(projection.to(x.scalar_type()), grid)
                                .matmul(x.narrow(2, grid.num_prefix, patches))},
                   2);
  }

  /// The effective map, row x Fp: weights (B, H, n, m) -> (B, H, n, N).
  [[nodiscard]] Tensor lengthen(const Tensor& row, const TokenGrid& grid) const {
    if (projection_ == Projection::pool || projection_ == Projection::max)
      return unpool_patches(row, grid, length_);
    if (projection_ == Projection::conv) {
      if (grid.num_patches() == 0) return row;
      return unpool_patches(row, grid, length_) *
             cell_weights(of_values_.to(row.scalar_type()), grid, length_).transpose(1, 2);
    }
    if (projection_ == Projection::dense) return row.matmul(of_values_.to(row.scalar_type()));
    if (grid.rows * grid.columns == 0) return row;
    const Tensor patches = row.narrow(3, grid.num_prefix, length_);
    return at::cat({row.narrow(3, 0, grid.num_prefix),
                    patches.matmul(resized(of_values_.to(row.scalar_type()), grid))},
                   3);
  }

  [[nodiscard]] Tensor resized(const Tensor& projection, const TokenGrid& grid) const {
    if (grid.rows == training_.rows && grid.columns == training_.columns) return projection;
    const Tensor image = projection.view({1, length_, training_.rows, training_.columns});
    const Tensor larger =
        at::upsample_bicubic2d(image, {grid.rows, grid.columns}, /*align_corners=*/false)
            .view({length_, -1});
    const Tensor before = projection.sum(-1, /*keepdim=*/true);
    const Tensor after = larger.sum(-1, /*keepdim=*/true);
    // A row that sums to nothing has no factor that keeps its sum.
    constexpr double kLeast = 1e-6;
    const Tensor factor = at::where(after.abs() < kLeast, at::ones_like(after), before / after);
    return larger * factor;
  }

  TokenGrid training_;
  Projection projection_;
  std::int64_t length_;
  Tensor of_keys_;
  Tensor of_values_;
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
      return std::make_unique<LinformerMixer>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
