// Nystromformer (Xiong et al. 2021, arXiv 2102.03902, equation 13): softmax attention
// through m landmarks,
//   y = softmax(q kt^T) pinv(softmax(qt kt^T)) softmax(qt k^T) v       scores over sqrt(d)
// Landmarks are averages over cells of the patch grid, and each prefix token is one of its own (the
// paper averages segments of a sequence); with all tokens as landmarks this is softmax. The
// pseudo-inverse is the paper's iteration (equation 14), started for every matrix on its own, so
// an image's result does not depend on the batch:
//   Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4,    Z_0 = A^T / (|A|_1 |A|_inf)
#include "model/attention/attention.h"
#include "model/attention/projection/patch_pooling.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// In float64: rounding of float32 grows with every step past the sixth.
Tensor pseudo_inverse(const Tensor& matrix, std::int64_t iterations) {
  const Tensor a = matrix.to(at::kDouble);
  const Tensor eye = at::eye(a.size(-1), a.options());
  const Tensor column_sum = a.abs().sum(-2).amax(-1);
  const Tensor row_sum = a.abs().sum(-1).amax(-1);
  Tensor z = a.transpose(-2, -1) / (column_sum * row_sum).unsqueeze(-1).unsqueeze(-1);
  for (std::int64_t i = 0; i < iterations; ++i) {
    const Tensor az = a.matmul(z);
    z = z.matmul(13 * eye - az.matmul(15 * eye - az.matmul(7 * eye - az))) / 4;
  }
  return z.to(matrix.scalar_type());
}

class NystromMixer : public TokenMixer {
 public:
  NystromMixer(std::int64_t landmarks, std::int64_t iterations)
      : landmarks_(landmarks), iterations_(iterations) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels) override {
    const Factors f = factors(q, k, grid, 0, q.size(2));
    const Tensor context = f.middle.matmul(f.right.matmul(to_compute_type(v)));
    return merge_heads(f.left.matmul(context)).to(v.scalar_type());
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    const Factors f = factors(q, k, grid, first, count);
    return f.left.matmul(f.middle).matmul(f.right);
  }

  /// Landmarks are averages of them.
  [[nodiscard]] bool needs_all_queries() const override { return true; }

 private:
  struct Factors {
    Tensor left;    ///< (B, H, count, m)
    Tensor middle;  ///< (B, H, m, m)
    Tensor right;   ///< (B, H, m, N)
  };
  [[nodiscard]] Factors factors(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                                std::int64_t first, std::int64_t count) const {
    const Tensor queries = to_compute_type(q) * (1 / std::sqrt(static_cast<double>(q.size(-1))));
    const Tensor keys = to_compute_type(k);
    const Tensor landmark_queries = pool_patches(queries, grid, landmarks_);
    const Tensor landmark_keys = pool_patches(keys, grid, landmarks_).transpose(-2, -1);
    return {queries.narrow(2, first, count).matmul(landmark_keys).softmax(-1),
            pseudo_inverse(landmark_queries.matmul(landmark_keys).softmax(-1), iterations_),
            landmark_queries.matmul(keys.transpose(-2, -1)).softmax(-1)};
  }

  std::int64_t landmarks_;
  std::int64_t iterations_;
};

const IntegerOption kLandmarks("landmarks", 64, 1, 65536, "cells of the patch grid, about");
const IntegerOption kIterations("iterations", 6, 1, 64, "steps of the pseudo-inverse");

const MechanismRegistration kNystrom({
    .name = "nystrom",
    .aliases = {"nystromformer"},
    .summary = "softmax attention through averaged landmarks, O(N D m); without the depthwise "
               "convolution of v that the authors' code adds",
    .citation = "Xiong et al. 2021, Nystromformer: A Nystrom-based Algorithm for Approximating "
                "Self-Attention, arXiv 2102.03902",
    .options = {kLandmarks, kIterations},
    .map_definition = "A = softmax(q kt^T) pinv(softmax(qt kt^T)) softmax(qt k^T): signed, "
                      "approximate, rows sum to about one",
    .permutation_equivariant = false,
    .cost =
        [](const MixerSize& size, const MechanismOptions& options) {
          const auto n = static_cast<double>(size.num_tokens());
          const double m = std::min(static_cast<double>(kLandmarks(options)), n);
          const auto d = static_cast<double>(size.embed_dim);
          const double inverse = static_cast<double>(kIterations(options)) * 4 * m * m * m *
                                 static_cast<double>(size.num_heads);
          return MixerCost{2 * (4 * n * m * d + inverse),
                           4 * n * d * static_cast<double>(size.bytes_per_element)};
        },
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<NystromMixer>(kLandmarks(arguments.options),
                                            kIterations(arguments.options));
    },
});

}  // namespace
}  // namespace hydrascope::model
