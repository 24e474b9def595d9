#include "model/ops/hydra_attention.h"

#include "model/ops/choices.h"
#include "model/ops/token_rows.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string_view>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::hydra::Eps;
using kernels::hydra::Norm;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOperator = "hydra_attention";

std::int64_t parse_norm(const char* argument, std::string_view name) {
  return choice_of<Norm>(kOperator, argument, name,
                         {{"l2", Norm::l2}, {"l1", Norm::l1}, {"none", Norm::none}});
}

HydraOptions parse(std::string_view norm_q, std::string_view norm_k, std::string_view eps_rule,
                   double eps, std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  TORCH_CHECK(eps >= 0, "hydrascope::", kOperator, ": eps is ", eps, ", expected at least 0");
  return {parse_norm("norm_q", norm_q),
          parse_norm("norm_k", norm_k),
          choice_of<Eps>(kOperator, "eps_rule", eps_rule,
                         {{"max", Eps::max}, {"rsqrt", Eps::rsqrt}, {"add", Eps::add}}),
          eps,
          num_prefix,
          prefix_weight,
          patch_weight};
}

HydraForward call_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                          const std::optional<Tensor>& feature_scale, const HydraOptions& o) {
  using Signature =
      HydraForward(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                   std::int64_t, std::int64_t, std::int64_t, double, std::int64_t, double, double);
  static const auto forward = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("hydrascope::_hydra_attention_forward", "")
                                  .typed<Signature>();
  return forward.call(q, k, v, feature_scale, o.norm_q, o.norm_k, o.eps_rule, o.eps, o.num_prefix,
                      o.prefix_weight, o.patch_weight);
}

HydraBackward call_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                            const std::optional<Tensor>& feature_scale, const Tensor& saved,
                            const Tensor& grad_y, bool with_feature_scale, const HydraOptions& o) {
  using Signature =
      HydraBackward(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                    const Tensor&, const Tensor&, bool, std::int64_t, std::int64_t, std::int64_t,
                    double, std::int64_t, double, double);
  static const auto backward = c10::Dispatcher::singleton()
                                   .findSchemaOrThrow("hydrascope::_hydra_attention_backward", "")
                                   .typed<Signature>();
  return backward.call(q, k, v, feature_scale, saved, grad_y, with_feature_scale, o.norm_q,
                       o.norm_k, o.eps_rule, o.eps, o.num_prefix, o.prefix_weight, o.patch_weight);
}

class HydraFunction : public torch::autograd::Function<HydraFunction> {
 public:
  static constexpr bool is_traceable = true;

  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& feature_scale, const HydraOptions& o) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, saved] = call_forward(q, k, v, feature_scale, o);
    context->save_for_backward({q, k, v, feature_scale.value_or(Tensor()), saved});
    auto& data = context->saved_data;
    data["choices"] = std::vector<std::int64_t>{o.norm_q, o.norm_k, o.eps_rule, o.num_prefix};
    data["numbers"] = std::vector<double>{o.eps, o.prefix_weight, o.patch_weight};
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto choices = context->saved_data["choices"].toIntVector();
    const auto numbers = context->saved_data["numbers"].toDoubleVector();
    const bool with_feature_scale = saved[3].defined() && context->needs_input_grad(3);
    auto [dq, dk, dv, dscale] = call_backward(
        saved[0], saved[1], saved[2], saved[3].defined() ? std::optional(saved[3]) : std::nullopt,
        saved[4], gradients[0], with_feature_scale,
        {choices[0], choices[1], choices[2], numbers[0], choices[3], numbers[1], numbers[2]});
    return {dq, dk, dv, with_feature_scale ? dscale : Tensor(), Tensor()};
  }
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view norm_q,
                 std::string_view norm_k, std::string_view eps_rule, double eps,
                 const std::optional<Tensor>& feature_scale, std::int64_t num_prefix,
                 double prefix_weight, double patch_weight) {
  return std::get<0>(
      call_forward(q, k, v, feature_scale,
                   parse(norm_q, norm_k, eps_rule, eps, num_prefix, prefix_weight, patch_weight)));
}

Tensor differentiable(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view norm_q,
                      std::string_view norm_k, std::string_view eps_rule, double eps,
                      const std::optional<Tensor>& feature_scale, std::int64_t num_prefix,
                      double prefix_weight, double patch_weight) {
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                                     (feature_scale.has_value() && feature_scale->requires_grad())))
    return HydraFunction::apply(
        q, k, v, feature_scale,
        parse(norm_q, norm_k, eps_rule, eps, num_prefix, prefix_weight, patch_weight));
  const at::AutoDispatchBelowADInplaceOrView below;
  return attention(q, k, v, norm_q, norm_k, eps_rule, eps, feature_scale, num_prefix, prefix_weight,
                   patch_weight);
}

/// Shapes and dtypes alone.
HydraForward meta_forward(const Tensor& q, const Tensor&, const Tensor&, const Tensor&,
                          const HydraOptions&) {
  return {empty_token_rows(q), at::empty_symint({q.sym_size(0), q.sym_size(1) * q.sym_size(3)},
                                                q.options().dtype(compute_type(q)))};
}

HydraBackward meta_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& feature_scale, const Tensor& saved, const Tensor&,
                            bool with_feature_scale, const HydraOptions&) {
  return {empty_token_rows(q), empty_token_rows(k), empty_token_rows(v),
          with_feature_scale ? at::empty_like(feature_scale) : at::empty({0}, saved.options())};
}

}  // namespace

void check_hydra(const Tensor& q, const Tensor& k, const Tensor& v,
                 const std::optional<Tensor>& feature_scale, const HydraOptions& options) {
  check_tokens(kOperator, q, k, v, /*one_width=*/true);
  check_prefix(kOperator, k, options.num_prefix);
  if (!feature_scale.has_value()) return;
  const Tensor& scale = *feature_scale;
  TORCH_CHECK(scale.dim() == 1 && scale.sym_size(0) == q.sym_size(1) * q.sym_size(3),
              "hydrascope::", kOperator, ": feature_scale has shape ", scale.sym_sizes(),
              ", expected (heads * head_dim) = [", q.sym_size(1) * q.sym_size(3), "]");
  TORCH_CHECK(at::isFloatingType(scale.scalar_type()), "hydrascope::", kOperator,
              ": feature_scale is ", scale.scalar_type(), ", expected a floating type");
  TORCH_CHECK(scale.device() == q.device(), "hydrascope::", kOperator, ": feature_scale is on ",
              scale.device(), ", expected q's ", q.device());
}

TORCH_LIBRARY_IMPL(hydrascope, CompositeExplicitAutograd, library) {
  library.impl("hydra_attention", attention);
}
TORCH_LIBRARY_IMPL(hydrascope, Autograd, library) {
  library.impl("hydra_attention", differentiable);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  library.impl("_hydra_attention_forward", hydra_forward_operator<meta_forward>);
  library.impl("_hydra_attention_backward", hydra_backward_operator<meta_backward>);
}

}  // namespace hydrascope::model::ops
