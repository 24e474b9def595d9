#include "model/ops/hydra_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::hydra::Norm;

const Choices<Norm> kNorms{{"l2", Norm::l2}, {"l1", Norm::l1}, {"none", Norm::none}};

Norm norm_called(const char* argument, std::string_view name) {
  return choice_of(HydraOptions::kName, argument, name, kNorms);
}

Tensor hydra_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view norm_q,
                       std::string_view norm_k, double eps,
                       const std::optional<Tensor>& feature_scale, std::int64_t num_prefix,
                       double prefix_weight, double patch_weight) {
  TORCH_CHECK(eps >= 0, "hydrascope::hydra_attention: eps is ", eps, ", expected at least 0");
  const auto least = static_cast<float>(eps);
  const HydraOptions options{
      {{norm_called("norm_q", norm_q), least}, {norm_called("norm_k", norm_k), least}},
      {num_prefix, prefix_weight, patch_weight}};
  return attend({q, k, v, feature_scale}, options);
}

// Shapes and dtypes alone.

AttentionForward hydra_shapes(const AttentionInputs& in, bool, const HydraOptions&) {
  const Tensor& q = in.q;
  const at::TensorOptions sums = q.options().dtype(compute_type(q));
  return {empty_token_rows(q),
          at::empty_symint({q.sym_size(0), q.sym_size(1) * q.sym_size(3)}, sums)};
}

AttentionBackward hydra_gradient_shapes(const AttentionInputs& in, const AttentionSaved& saved,
                                        const HydraOptions&) {
  return {empty_token_rows(in.q), empty_token_rows(in.k), empty_token_rows(in.v),
          saved.with_feature_scale ? at::empty_like(*in.feature_scale)
                                   : at::empty({0}, saved.sums.options())};
}

}  // namespace

HydraOptions HydraOptions::from(const Arguments& arguments) {
  const auto& [norm_q, eps_q, norm_k, eps_k, num_prefix, prefix, patch] = arguments;
  return {{{choice_numbered(kName, "norm_q", norm_q, kNorms), static_cast<float>(eps_q)},
           {choice_numbered(kName, "norm_k", norm_k, kNorms), static_cast<float>(eps_k)}},
          {num_prefix, prefix, patch}};
}

HydraOptions::Arguments HydraOptions::arguments() const {
  return {static_cast<std::int64_t>(kernel.query.norm),
          kernel.query.eps,
          static_cast<std::int64_t>(kernel.key.norm),
          kernel.key.eps,
          weights.num_prefix,
          weights.prefix,
          weights.patch};
}

void HydraOptions::check(const AttentionInputs& in) const {
  check_tokens(kName, in.q, in.k, in.v, /*one_width=*/true);
  check_prefix(kName, in.k, weights.num_prefix);
  if (!in.feature_scale.has_value()) return;
  const Tensor& scale = *in.feature_scale;
  TORCH_CHECK(scale.dim() == 1 && scale.sym_size(0) == in.q.sym_size(1) * in.q.sym_size(3),
              "hydrascope::", kName, ": feature_scale has shape ", scale.sym_sizes(),
              ", expected (heads * head_dim) = [", in.q.sym_size(1) * in.q.sym_size(3), "]");
  TORCH_CHECK(at::isFloatingType(scale.scalar_type()), "hydrascope::", kName, ": feature_scale is ",
              scale.scalar_type(), ", expected a floating type");
  TORCH_CHECK(scale.device() == in.q.device(), "hydrascope::", kName, ": feature_scale is on ",
              scale.device(), ", expected q's ", in.q.device());
}

TORCH_LIBRARY_IMPL(hydrascope, CompositeImplicitAutograd, library) {
  library.impl("hydra_attention", hydra_attention);
}
TORCH_LIBRARY_IMPL(hydrascope, CompositeExplicitAutograd, library) {
  library.impl("_hydra_attention_forward", Operators<HydraOptions>::forward<hydra_formula>);
  library.impl("_hydra_attention_backward",
               Operators<HydraOptions>::backward<hydra_formula_backward>);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  library.impl("_hydra_attention_forward", Operators<HydraOptions>::forward<hydra_shapes>);
  library.impl("_hydra_attention_backward",
               Operators<HydraOptions>::backward<hydra_gradient_shapes>);
}

}  // namespace hydrascope::model::ops
