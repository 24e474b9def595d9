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
#include "model/attention/attention.h"
#include "model/attention/projection/token_projection.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

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
  if (kind == Projection::pool) return cell_projection(length, PoolBy::average);
  if (kind == Projection::max) return cell_projection(length, PoolBy::maximum);
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
  if (kind == Projection::conv) return kernel_projection(std::move(weights), length);
  if (kind == Projection::dense) return dense_projection(std::move(weights), training);
  return resized_projection(std::move(weights), training);
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
