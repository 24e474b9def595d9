#include "model/training/distillation/matching_losses.h"

#include "model/autocast_guard.h"

#include <ATen/ATen.h>
#include <torch/nn/functional/normalization.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

constexpr double kSmallestWeight = 1e-8;

}  // namespace

at::Tensor row_cross_entropy(const at::Tensor& student, const at::Tensor& teacher) {
  return -(teacher * student.clamp_min(kSmallestWeight).log()).sum(-1).mean();
}

at::Tensor row_entropy(const at::Tensor& teacher) {
  return -at::xlogy(teacher, teacher).sum(-1).mean();
}

at::Tensor relative_error(const at::Tensor& student, const at::Tensor& teacher) {
  const at::Tensor wanted = to_compute_type(teacher);
  const at::Tensor difference = to_compute_type(student) - wanted;
  return (difference.square().flatten(1).sum(1) / wanted.square().flatten(1).sum(1)).mean();
}

at::Tensor token_error(const at::Tensor& student, const at::Tensor& teacher,
                       std::int64_t num_class_tokens, double cls_weight) {
  const at::Tensor of_all = relative_error(student, teacher);
  if (cls_weight == 0 || num_class_tokens == 0 || num_class_tokens == teacher.size(1))
    return of_all;
  return of_all + cls_weight * relative_error(student.narrow(1, 0, num_class_tokens),
                                              teacher.narrow(1, 0, num_class_tokens));
}

at::Tensor unit_vectors(const at::Tensor& x) {
  namespace F = torch::nn::functional;
  return F::normalize(to_compute_type(x), F::NormalizeFuncOptions().dim(-1));
}

at::Tensor cosine_distance(const at::Tensor& student, const at::Tensor& teacher) {
  return (unit_vectors(student) - unit_vectors(teacher)).square().sum(-1).mean() / 2;
}

at::Tensor gram_error(const at::Tensor& student, const at::Tensor& teacher) {
  // Autocast would round the similarities to three digits.
  const AutocastGuard off(student.device().type(), {});
  const auto gram = [](const at::Tensor& x) {
    const at::Tensor unit = unit_vectors(x);
    return unit.matmul(unit.transpose(-2, -1));
  };
  return (gram(student) - gram(teacher)).square().mean();
}

at::Tensor sample_queries(const TokenGrid& grid, std::int64_t count, RandomStream random) {
  const std::int64_t num_patches = grid.num_image_tokens();
  const std::int64_t num_sampled =
      std::clamp<std::int64_t>(count - grid.num_prefix, 0, num_patches);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(grid.num_tokens()));
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto patches = tokens.begin() + grid.num_prefix;
  // The first `num_sampled` of a shuffle (Fisher and Yates).
  for (std::int64_t i = 0; i < num_sampled; ++i) {
    const auto other = i + random.below(static_cast<std::uint64_t>(num_patches - i));
    std::swap(patches[i], patches[static_cast<std::ptrdiff_t>(other)]);
  }
  std::sort(patches, patches + num_sampled);
  tokens.resize(static_cast<std::size_t>(grid.num_prefix + num_sampled));
  return at::tensor(tokens, at::kLong);
}

}  // namespace hydrascope::model::training
