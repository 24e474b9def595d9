#include "model/ops/linear_attention.h"

#include "model/ops/choices.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string_view>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;
using kernels::linear_attention::Normaliser;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOperator = "linear_attention";

LinearOptions parse(std::string_view feature, std::string_view normaliser, double eps,
                    double unit_eps, std::int64_t num_prefix, double prefix_weight,
                    double patch_weight) {
  TORCH_CHECK(eps >= 0, "hydrascope::", kOperator, ": eps is ", eps, ", expected at least 0");
  TORCH_CHECK(unit_eps >= 0, "hydrascope::", kOperator, ": unit_eps is ", unit_eps,
              ", expected at least 0");
  return {choice_of<Feature>(kOperator, "feature", feature,
                             {{"elu", Feature::elu_plus_one},
                              {"elu_plus_one", Feature::elu_plus_one},
                              {"relu", Feature::relu},
                              {"unit", Feature::unit},
                              {"exp", Feature::exp},
                              {"exp_pair", Feature::exp_pair},
                              {"softmax_pair", Feature::softmax_pair},
                              {"softmax_both", Feature::softmax_both},
                              {"exp_centred", Feature::exp_centred}}),
          choice_of<Normaliser>(kOperator, "normaliser", normaliser,
                                {{"add_eps", Normaliser::add_eps}, {"none", Normaliser::none}}),
          eps,
          unit_eps,
          num_prefix,
          prefix_weight,
          patch_weight};
}

LinearForward call_forward(const Tensor& q, const Tensor& k, const Tensor& v, bool save,
                           const LinearOptions& o) {
  using Signature = LinearForward(const Tensor&, const Tensor&, const Tensor&, bool, std::int64_t,
                                  std::int64_t, double, double, std::int64_t, double, double);
  static const auto forward = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("hydrascope::_linear_attention_forward", "")
                                  .typed<Signature>();
  return forward.call(q, k, v, save, o.feature, o.normaliser, o.eps, o.unit_eps, o.num_prefix,
                      o.prefix_weight, o.patch_weight);
}

LinearBackward call_backward(const LinearSaved& saved, const Tensor& grad_y,
                             const LinearOptions& o) {
  using Signature = LinearBackward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   const Tensor&, const Tensor&, const Tensor&, std::int64_t,
                                   std::int64_t, double, double, std::int64_t, double, double);
  static const auto backward = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("hydrascope::_linear_attention_backward", "")
                                   .typed<Signature>();
  return backward.call(saved.q, saved.k, saved.v, saved.y, saved.state, saved.denominator, grad_y,
                       o.feature, o.normaliser, o.eps, o.unit_eps, o.num_prefix, o.prefix_weight,
                       o.patch_weight);
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const LinearOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, state, denominator] = call_forward(q, k, v, /*save=*/true, o);
    context->save_for_backward({q, k, v, y, state, denominator});
    auto& data = context->saved_data;
    data["choices"] = std::vector<std::int64_t>{o.feature, o.normaliser, o.num_prefix};
    data["numbers"] = std::vector<double>{o.eps, o.unit_eps, o.prefix_weight, o.patch_weight};
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto choices = context->saved_data["choices"].toIntVector();
    const auto numbers = context->saved_data["numbers"].toDoubleVector();
    const auto [dq, dk, dv] = call_backward(
        {saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]}, gradients[0],
        {choices[0], choices[1], numbers[0], numbers[1], choices[2], numbers[2], numbers[3]});
    return {dq, dk, dv, Tensor()};
  }
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view feature,
                 std::string_view normaliser, double eps, double unit_eps, std::int64_t num_prefix,
                 double prefix_weight, double patch_weight) {
  return std::get<0>(call_forward(
      q, k, v, /*save=*/false,
      parse(feature, normaliser, eps, unit_eps, num_prefix, prefix_weight, patch_weight)));
}

Tensor differentiable(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view feature,
                      std::string_view normaliser, double eps, double unit_eps,
                      std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad()))
    return LinearFunction::apply(
        q, k, v,
        parse(feature, normaliser, eps, unit_eps, num_prefix, prefix_weight, patch_weight));
  const at::AutoDispatchBelowADInplaceOrView below;
  return attention(q, k, v, feature, normaliser, eps, unit_eps, num_prefix, prefix_weight,
                   patch_weight);
}

/// Shapes and dtypes alone.
LinearForward meta_forward(const Tensor& q, const Tensor&, const Tensor& v, bool save,
                           const LinearOptions& options) {
  return empty_linear_outputs(q, v, save, options);
}

LinearBackward meta_backward(const LinearSaved& saved, const Tensor&, const LinearOptions&) {
  return {empty_token_rows(saved.q), empty_token_rows(saved.k), empty_token_rows(saved.v)};
}

}  // namespace

void check_linear(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& options) {
  check_tokens(kOperator, q, k, v, /*one_width=*/false);
  check_prefix(kOperator, k, options.num_prefix);
}

LinearForward empty_linear_outputs(const Tensor& q, const Tensor& v, bool save,
                                   const LinearOptions& options) {
  const Tensor y = empty_token_rows(v);
  const at::TensorOptions sums = q.options().dtype(compute_type(q));
  const at::TensorOptions single = q.options().dtype(at::kFloat);
  if (!save) return {y, at::empty({0}, sums), at::empty({0}, single)};
  const c10::SymInt width = q.sym_size(3);
  const c10::SymInt features =
      kernels::linear_attention::feature_dim(options.map(), 1) == 2 ? width * 2 : width;
  const c10::SymInt heads = q.sym_size(0) * q.sym_size(1);
  return {y, at::empty_symint({heads * features * (v.sym_size(3) + 2)}, sums),
          at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, single)};
}

TORCH_LIBRARY_IMPL(hydrascope, CompositeExplicitAutograd, library) {
  library.impl("linear_attention", attention);
}
TORCH_LIBRARY_IMPL(hydrascope, Autograd, library) {
  library.impl("linear_attention", differentiable);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  library.impl("_linear_attention_forward", linear_forward_operator<meta_forward>);
  library.impl("_linear_attention_backward", linear_backward_operator<meta_backward>);
}

}  // namespace hydrascope::model::ops
