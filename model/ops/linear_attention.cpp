#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;
using kernels::linear_attention::Normaliser;

const Choices<Feature> kFeatures{{"elu", Feature::elu_plus_one},
                                 {"elu_plus_one", Feature::elu_plus_one},
                                 {"relu", Feature::relu},
                                 {"unit", Feature::unit},
                                 {"exp", Feature::exp},
                                 {"exp_pair", Feature::exp_pair},
                                 {"softmax_pair", Feature::softmax_pair},
                                 {"softmax_both", Feature::softmax_both},
                                 {"exp_centred", Feature::exp_centred}};
const Choices<Normaliser::Rule> kNormalisers{{"add_eps", Normaliser::Rule::add_eps},
                                             {"none", Normaliser::Rule::none}};

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view feature,
                        std::string_view normaliser, double eps, double unit_eps,
                        std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  constexpr const char* kName = LinearOptions::kName;
  TORCH_CHECK(eps >= 0, "hydrascope::", kName, ": eps is ", eps, ", expected at least 0");
  TORCH_CHECK(unit_eps >= 0, "hydrascope::", kName, ": unit_eps is ", unit_eps,
              ", expected at least 0");
  LinearOptions options;
  options.rule.feature = choice_of(kName, "feature", feature, kFeatures);
  options.rule.normaliser.rule = choice_of(kName, "normaliser", normaliser, kNormalisers);
  options.rule.normaliser.eps = static_cast<float>(eps);
  options.rule.unit_eps = static_cast<float>(unit_eps);
  options.weights = {num_prefix, prefix_weight, patch_weight};
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
  const FeatureMapPtr map = kernel_map({options.rule.feature, options.rule.unit_eps});
  const TokenGrid grid{options.weights.num_prefix, in.k.size(2) - options.weights.num_prefix, 1};
  return call(LinearFormula(*map, options.rule.normaliser, grid, options.weights));
}

}  // namespace

LinearOptions LinearOptions::from(const Arguments& arguments) {
  const auto& [feature, normaliser, eps, unit_eps, num_prefix, prefix, patch] = arguments;
  return {
      {choice_numbered(kName, "feature", feature, kFeatures),
       {choice_numbered(kName, "normaliser", normaliser, kNormalisers), static_cast<float>(eps)},
       static_cast<float>(unit_eps)},
      {num_prefix, prefix, patch}};
}

LinearOptions::Arguments LinearOptions::arguments() const {
  return {static_cast<std::int64_t>(rule.feature),
          static_cast<std::int64_t>(rule.normaliser.rule),
          rule.normaliser.eps,
          rule.unit_eps,
          weights.num_prefix,
          weights.prefix,
          weights.patch};
}

void LinearOptions::check(const AttentionInputs& in) const {
  check_tokens(kName, in.q, in.k, in.v, /*one_width=*/false);
  check_prefix(kName, in.k, weights.num_prefix);
}

AttentionForward empty_linear_outputs(const AttentionInputs& in, bool save,
                                      const LinearOptions& options) {
  const Tensor &q = in.q, &v = in.v;
  const Tensor y = empty_token_rows(v);
  const at::TensorOptions sums = q.options().dtype(compute_type(q));
  if (!save) return {y, at::empty({0}, sums)};
  const c10::SymInt width = q.sym_size(3);
  const c10::SymInt features =
      kernels::linear_attention::feature_dim(options.rule.feature, 1) == 2 ? width * 2 : width;
  const c10::SymInt heads = q.sym_size(0) * q.sym_size(1);
  return {y, at::empty_symint({heads * features * (v.sym_size(3) + 2)}, sums)};
}

AttentionForward linear_by_formula(const AttentionInputs& in, bool save,
                                   const LinearOptions& options) {
  return with_formula(in, options, [&](const LinearFormula& formula) -> AttentionForward {
    const auto [y, sums] = formula.forward(in.q, in.k, in.v);
    if (save && sums.numel() > 0) return {y, sums};
    return {y, std::get<1>(empty_linear_outputs(in, save, options))};
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
  library.impl("_linear_attention_forward", Operators<LinearOptions>::forward<linear_by_formula>);
  library.impl("_linear_attention_backward",
               Operators<LinearOptions>::backward<linear_gradient_by_formula>);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  library.impl("_linear_attention_forward",
               Operators<LinearOptions>::forward<empty_linear_outputs>);
  library.impl("_linear_attention_backward",
               Operators<LinearOptions>::backward<linear_gradient_shapes>);
}

}  // namespace hydrascope::model::ops
