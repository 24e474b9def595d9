#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view feature,
                        std::string_view normaliser, double eps, double unit_eps,
                        std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  constexpr const char* kName = LinearOptions::kName;
  TORCH_CHECK(eps >= 0, "hydrascope::", kName, ": eps is ", eps, ", expected at least 0");
  TORCH_CHECK(unit_eps >= 0, "hydrascope::", kName, ": unit_eps is ", unit_eps,
              ", expected at least 0");
  LinearOptions options;
  options.feature = choice_of<Feature>(kName, "feature", feature,
                                       {{"elu", Feature::elu_plus_one},
                                        {"elu_plus_one", Feature::elu_plus_one},
                                        {"relu", Feature::relu},
                                        {"unit", Feature::unit},
                                        {"exp", Feature::exp},
                                        {"exp_pair", Feature::exp_pair},
                                        {"softmax_pair", Feature::softmax_pair},
                                        {"softmax_both", Feature::softmax_both},
                                        {"exp_centred", Feature::exp_centred}});
  options.normaliser.rule = choice_of<Normaliser::Rule>(
      kName, "normaliser", normaliser,
      {{"add_eps", Normaliser::Rule::add_eps}, {"none", Normaliser::Rule::none}});
  options.normaliser.eps = eps;
  options.unit_eps = unit_eps;
  options.num_prefix = num_prefix;
  options.weights = {prefix_weight, patch_weight};
  return attend({q, k, v, std::nullopt}, options);
}

/// Shapes and dtypes alone.
AttentionBackward linear_gradient_shapes(const AttentionInputs& in, const AttentionSaved& saved,
                                         const LinearOptions&) {
  return {empty_token_rows(in.q), empty_token_rows(in.k), empty_token_rows(in.v),
          at::empty({0}, saved.sums.options())};
}

/// `call(formula)` with the equations for `options`' map.
template <class Call>
auto with_formula(const AttentionInputs& in, const LinearOptions& options, const Call& call) {
  const FeatureMapPtr map = kernel_map({options.feature, options.unit_eps, {}, {}});
  const TokenGrid grid{options.num_prefix, in.k.size(2) - options.num_prefix, 1};
  return call(LinearFormula(*map, options.normaliser, grid, options.weights));
}

}  // namespace

LinearOptions::LinearOptions(Choices choices, Numbers numbers)
    : feature(static_cast<Feature>(choices[0])),
      normaliser{static_cast<Normaliser::Rule>(choices[1]), numbers[0]},
      unit_eps(numbers[1]),
      num_prefix(choices[2]),
      weights{numbers[2], numbers[3]} {}

std::vector<std::int64_t> LinearOptions::choices() const {
  return {static_cast<std::int64_t>(feature), static_cast<std::int64_t>(normaliser.rule),
          num_prefix};
}

std::vector<double> LinearOptions::numbers() const {
  return {normaliser.eps, unit_eps, weights.prefix, weights.patch};
}

void LinearOptions::check(const AttentionInputs& in) const {
  check_tokens(kName, in.q, in.k, in.v, /*one_width=*/false);
  check_prefix(kName, in.k, num_prefix);
}

kernels::linear_attention::Shape LinearOptions::shape(std::int64_t heads, const Tensor& q,
                                                      const Tensor& v) const {
  using Rule = kernels::linear_attention::Normaliser;
  return {heads,
          q.size(3),
          v.size(3),
          feature,
          normaliser.rule == Normaliser::Rule::none ? Rule::none : Rule::add_eps,
          static_cast<float>(normaliser.eps),
          static_cast<float>(unit_eps)};
}

AttentionForward empty_linear_outputs(const AttentionInputs& in, bool save,
                                      const LinearOptions& options) {
  const Tensor &q = in.q, &v = in.v;
  const Tensor y = empty_token_rows(v);
  const at::TensorOptions sums = q.options().dtype(compute_type(q));
  const at::TensorOptions single = q.options().dtype(at::kFloat);
  if (!save) return {y, at::empty({0}, sums), at::empty({0}, single)};
  const c10::SymInt width = q.sym_size(3);
  const c10::SymInt features =
      kernels::linear_attention::feature_dim(options.feature, 1) == 2 ? width * 2 : width;
  const c10::SymInt heads = q.sym_size(0) * q.sym_size(1);
  return {y, at::empty_symint({heads * features * (v.sym_size(3) + 2)}, sums),
          at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, single)};
}

AttentionForward linear_by_formula(const AttentionInputs& in, bool save,
                                   const LinearOptions& options) {
  return with_formula(in, options, [&](const LinearFormula& formula) -> AttentionForward {
    const auto [empty_y, empty_sums, denominator] = empty_linear_outputs(in, save, options);
    const auto [y, sums] = formula.forward(in.q, in.k, in.v);
    return {y, save && sums.numel() > 0 ? sums : empty_sums, denominator.zero_()};
  });
}

AttentionBackward linear_gradient_by_formula(const AttentionInputs& in, const AttentionSaved& saved,
                                             const LinearOptions& options) {
  return with_formula(in, options, [&](const LinearFormula& formula) -> AttentionBackward {
    const auto [dq, dk, dv] = formula.backward(in.q, in.k, in.v, saved.sums, saved.grad_y);
    return {dq, dk, dv, at::empty({0}, saved.sums.options())};
  });
}

TORCH_LIBRARY_IMPL(hydrascope, CompositeImplicitAutograd, library) {
  library.impl("linear_attention", linear_attention);
}
TORCH_LIBRARY_IMPL(hydrascope, CompositeExplicitAutograd, library) {
  library.impl("_linear_attention_forward", forward_operator<LinearOptions, linear_by_formula>);
  library.impl("_linear_attention_backward",
               backward_operator<LinearOptions, linear_gradient_by_formula>);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  library.impl("_linear_attention_forward", forward_operator<LinearOptions, empty_linear_outputs>);
  library.impl("_linear_attention_backward",
               backward_operator<LinearOptions, linear_gradient_shapes>);
}

}  // namespace hydrascope::model::ops
