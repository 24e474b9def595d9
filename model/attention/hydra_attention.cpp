#include "model/attention/hydra_attention.h"

#include "kernels/error.h"
#include "model/attention/sparse/sparse_form.h"
#include "model/inference/cpu/mixings/hydra.h"
#include "model/ops/hydra_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;
using kernels::hydra::Norm;
using kernels::hydra::NormRule;

/// phi of q or k (B, H, N, d): (B, N, D) in the type of the computation.
Tensor phi(const HydraKernel& kernel, const HydraSettings& settings, const Tensor& x) {
  const Tensor tokens = to_compute_type(merge_heads(x));
  return kernel.rule ? unit_rows(tokens, *kernel.rule, settings.policy) : kernel.formula(tokens);
}

inference::HydraParameters parameters_of(const HydraForm& form, const TokenGrid& grid) {
  inference::HydraParameters parameters{form.kernel(), {}, form.token_weights(grid), form.lambda()};
  if (form.feature_scale().defined()) {
    const Tensor scale = form.feature_scale().detach().to(at::kFloat).contiguous();
    parameters.feature_scale.assign(scale.const_data_ptr<float>(),
                                    scale.const_data_ptr<float>() + scale.numel());
  }
  return parameters;
}

/// Its kernels run only on patches in the windows' order.
class HydraBesideWindowsForm final : public KernelForm {
 public:
  HydraBesideWindowsForm(std::unique_ptr<HydraForm> hydra,
                         std::shared_ptr<const SparseForm> windows)
      : hydra_(std::move(hydra)), windows_(std::move(windows)) {}

  [[nodiscard]] HeadNetwork query(std::int64_t head_dim) const override {
    return windows_->query(head_dim);
  }
  [[nodiscard]] std::optional<GridExtent> windows() const override { return windows_->windows(); }
  [[nodiscard]] bool serves_rows() const override { return false; }
  [[nodiscard]] bool serves_windows() const override { return true; }
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override {
    return inference::make_mixing<inference::HydraBesideWindowsMixing>(
        storage, site, parameters_of(*hydra_, site.grid), windows_->prefix_weights(site));
  }
  [[nodiscard]] std::unique_ptr<KernelForm> carrying(double lambda) const override {
    return hydra_->carrying(lambda)->beside(windows_);
  }

 private:
  std::unique_ptr<HydraForm> hydra_;
  std::shared_ptr<const SparseForm> windows_;
};

}  // namespace

const std::vector<HydraKernel>& hydra_kernels() {
  static const std::vector<HydraKernel> kernels{
      {"cosine", NormRule{Norm::l2}},
      {"l1", NormRule{Norm::l1}},
      {"mean",
       {},
       [](const Tensor& x) { return x / std::sqrt(static_cast<double>(x.size(1))); },
       0.5},
      {"tanh", {}, [](const Tensor& x) { return x.tanh(); }},
      {"sigmoid", {}, [](const Tensor& x) { return x.sigmoid(); }},
      {"relu", {}, [](const Tensor& x) { return x.relu(); }},
      {"softmax_token", {}, [](const Tensor& x) { return x.softmax(1); }, 1},
      {"softmax_feature", {}, [](const Tensor& x) { return x.softmax(-1); }},
  };
  return kernels;
}

const HydraKernel& find_hydra_kernel(std::string_view name) {
  const auto found = std::ranges::find(hydra_kernels(), name, &HydraKernel::name);
  if (found == hydra_kernels().end())
    throw Error(ErrorCode::internal, "there is no Hydra kernel '" + std::string(name) + "'");
  return *found;
}

Tensor hydra_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const TokenWeights& weights, const HydraSettings& settings,
                       const Tensor& feature_scale) {
  constexpr NormRule kMade{Norm::none};  // by a formula in front of the operator
  const auto of_query = settings.rule(settings.phi_q);
  const auto of_key = settings.rule(settings.phi_k);
  const auto sums = c10::make_intrusive<ops::HydraSums>(
      kernels::hydra::Kernel{of_query.value_or(kMade), of_key.value_or(kMade)}, weights);
  const auto scale = feature_scale.defined() ? std::optional(feature_scale) : std::nullopt;
  if (of_query && of_key) return merge_heads(ops::attend({q, k, v, scale}, sums));
  const auto before = [&](const HydraKernel& kernel, bool is_rule, const Tensor& x) {
    return is_rule ? to_compute_type(x) : split_heads(phi(kernel, settings, x), x.size(1));
  };
  const Tensor y =
      ops::attend({before(settings.phi_q, of_query.has_value(), q),
                   before(settings.phi_k, of_key.has_value(), k), to_compute_type(v), scale},
                  sums);
  return merge_heads(y).to(v.scalar_type());
}

HydraMixer::HydraMixer(const HydraSettings& settings, TokenScale scale,
                       const TokenGrid& training_grid, Tensor feature_scale)
    : settings_(settings),
      scale_(scale),
      training_grid_(training_grid),
      feature_scale_(std::move(feature_scale)) {}

TokenWeights HydraMixer::token_weights(const TokenGrid& grid) const {
  const double held = settings_.phi_q.token_exponent + settings_.phi_k.token_exponent;
  return model::token_weights(scale_, training_grid_, grid, std::max(0.0, 1 - held));
}

std::unique_ptr<KernelForm> HydraMixer::kernel_form() const {
  const auto of_query = settings_.rule(settings_.phi_q);
  const auto of_key = settings_.rule(settings_.phi_k);
  if (!of_query || !of_key) return nullptr;
  return std::make_unique<HydraForm>(*this, kernels::hydra::Kernel{*of_query, *of_key},
                                     feature_scale_);
}

inference::AnyMixing HydraForm::on_cpu(const inference::MixingSite& site,
                                       kernels::Storage storage) const {
  return inference::make_mixing<inference::HydraMixing>(storage, site,
                                                        parameters_of(*this, site.grid));
}

std::unique_ptr<KernelForm> HydraForm::beside(
    const std::shared_ptr<const SparseForm>& windows) const {
  return std::make_unique<HydraBesideWindowsForm>(
      std::make_unique<HydraForm>(mixer_, kernel_, feature_scale_, lambda_), windows);
}

Tensor HydraMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                       Kernels kernels) {
  if (kernels == Kernels::reference) return mix_rows(q, k, v, grid, 0, q.size(2));
  return hydra_attention(q, k, v, token_weights(grid), settings_, feature_scale_);
}

Tensor HydraMixer::attention_rows(const Tensor&, const Tensor&, const TokenGrid&, std::int64_t,
                                  std::int64_t) {
  return {};
}

Tensor HydraMixer::terms(const Tensor& k, const Tensor& v, const TokenGrid& grid) const {
  const TokenWeights weights = token_weights(grid);
  const Tensor kh = phi(settings_.phi_k, settings_, k);
  const Tensor values = to_compute_type(merge_heads(v));
  if (wants_gradient({kh, values})) return weighted(kh * values, weights);
  // In place: at 8161 tokens of 768 features each copy takes 25 MB.
  kh.mul_(values);
  if (weights.prefix != 1) kh.narrow(1, 0, grid.num_prefix).mul_(weights.prefix);
  if (weights.patch != 1)
    kh.narrow(1, grid.num_prefix, kh.size(1) - grid.num_prefix).mul_(weights.patch);
  return kh;
}

Tensor HydraMixer::global_terms(const Tensor& k, const Tensor& v, const TokenGrid& grid) const {
  const Tensor all = terms(k, v, grid);
  return feature_scale_.defined() ? all * feature_scale_ : all;
}

Tensor HydraMixer::gates(const Tensor& q, std::int64_t first, std::int64_t count) const {
  const Tensor qh = phi(settings_.phi_q, settings_, q).narrow(1, first, count);
  return feature_scale_.defined() ? qh * feature_scale_ : qh;
}

Tensor HydraMixer::mix_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                            const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  return (gates(q, first, count) * terms(k, v, grid).sum(1, /*keepdim=*/true)).to(v.scalar_type());
}

Tensor HydraMixer::mix_state(const Tensor& q, const Tensor& k, const Tensor& v,
                             const TokenGrid& grid,
                             const std::function<void(MixerState&)>& change) {
  MixerState state{terms(k, v, grid).sum(1, /*keepdim=*/true), {}};
  change(state);
  return (gates(q, 0, q.size(2)) * state.values).to(v.scalar_type());
}

Tensor HydraMixer::weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                 const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  return head_products(gates(q, first, count) * g, split_heads(terms(k, v, grid), v.size(1)));
}

MixerCost hydra_cost(const MixerSize& size, double kernel_multiply_adds_per_element) {
  const double elements =
      static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
  return {2 * elements * (2 + kernel_multiply_adds_per_element),
          4 * elements * static_cast<double>(size.bytes_per_element) +
              4 * static_cast<double>(size.embed_dim)};
}

}  // namespace hydrascope::model
