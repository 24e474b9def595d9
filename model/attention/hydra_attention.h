// Attention with as many heads as features, each one wide (Hydra Attention, Bolya et al. 2022,
// arXiv 2209.07484, equation 7; not the bidirectional state-space model of the same name):
//   c = sum_t w_t phi_k(k_t) * v_t   (one D-vector for all tokens)      y_i = phi_q(q_i) * c
// AFT-Simple and PolyNL are the same with other phi.
#pragma once

#include "model/attention/attention.h"
#include "model/attention/kernel_form.h"
#include "model/attention/token_scale.h"
#include "model/attention/unit_rows.h"
#include "model/registry/mechanisms.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::model {

/// A kernel phi. It acts on whole tokens, x (B, N, D): the cosine of two scalars is only a sign.
struct HydraKernel {
  std::string_view name;
  std::optional<kernels::hydra::NormRule> rule = {};  ///< x / r(x), as kernels read it; else
  at::Tensor (*formula)(const at::Tensor& x) = nullptr;
  double token_exponent = 0;  ///< e where phi already holds N^-e: `mean` 1/2, `softmax_token` 1
};

/// All kernels: cosine, l1, mean, tanh, sigmoid, relu, softmax_token, softmax_feature.
const std::vector<HydraKernel>& hydra_kernels();
const HydraKernel& find_hydra_kernel(std::string_view name);

struct HydraSettings {
  HydraKernel phi_q;
  HydraKernel phi_k;
  EpsPolicy policy = EpsPolicy::max;  ///< others than `max` are formulas in front of the operator

  /// The rule of phi_q or phi_k if the operator divides by the norm; nothing for a formula.
  [[nodiscard]] std::optional<kernels::hydra::NormRule> rule(const HydraKernel& phi) const {
    return policy == EpsPolicy::max ? phi.rule : std::nullopt;
  }
};

/// y (B, N, D) of q, k, v (B, H, N, d), in v's dtype: the operator of model/ops/hydra_attention.h
/// behind formulas for each phi that is no norm of at least eps. `feature_scale` (D) or undefined.
at::Tensor hydra_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const TokenWeights& weights, const HydraSettings& settings,
                           const at::Tensor& feature_scale = {});

/// A mechanism of this family; `feature_scale` (D), when defined, multiplies c.
class HydraMixer : public TokenMixer {
 public:
  HydraMixer(const HydraSettings& settings, TokenScale scale, const TokenGrid& training_grid,
             at::Tensor feature_scale = {});
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels kernels) override;
  /// Undefined: every feature has a map of its own, of rank one.
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const TokenGrid& grid, std::int64_t first,
                               std::int64_t count) override;
  torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const TokenGrid& grid, std::int64_t first, std::int64_t count) override;
  torch::Tensor weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& g, const TokenGrid& grid,
                              std::int64_t first, std::int64_t count) override;
  /// The state is c (B, 1, D).
  torch::Tensor mix_state(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const TokenGrid& grid,
                          const std::function<void(MixerState&)>& change) override;
  [[nodiscard]] bool needs_all_queries() const override {
    return settings_.phi_q.token_exponent != 0;
  }
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override;
  /// w_t of c at a size.
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const;
  /// Each token's share of the global vector that gates multiply, feature scale included:
  /// (B, N, D); the sum over N is the global vector.
  [[nodiscard]] torch::Tensor global_terms(const torch::Tensor& k, const torch::Tensor& v,
                                           const TokenGrid& grid) const;

 private:
  /// w_t phi_k(k_t) * v_t (B, N, D); they sum to c.
  [[nodiscard]] torch::Tensor terms(const torch::Tensor& k, const torch::Tensor& v,
                                    const TokenGrid& grid) const;
  /// The factors of c: rows of phi_q(q), and the feature scale (B, count, D).
  [[nodiscard]] torch::Tensor gates(const torch::Tensor& q, std::int64_t first,
                                    std::int64_t count) const;
  HydraSettings settings_;
  TokenScale scale_;
  TokenGrid training_grid_;
  at::Tensor feature_scale_;
};

/// Hydra whose phi_q and phi_k are norms, as kernels compute it.
class HydraForm final : public KernelForm {
 public:
  /// `lambda`: `carrying`'s; 0 without.
  HydraForm(const HydraMixer& mixer, const kernels::hydra::Kernel& kernel, at::Tensor feature_scale,
            double lambda = 0)
      : mixer_(mixer), kernel_(kernel), feature_scale_(std::move(feature_scale)), lambda_(lambda) {}

  [[nodiscard]] bool serves_windows() const override { return true; }
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override;
  [[nodiscard]] std::unique_ptr<KernelForm> beside(
      const std::shared_ptr<const SparseForm>& windows) const override;
  [[nodiscard]] std::unique_ptr<KernelForm> carrying(double lambda) const override {
    return std::make_unique<HydraForm>(mixer_, kernel_, feature_scale_, lambda);
  }

  [[nodiscard]] double lambda() const { return lambda_; }
  [[nodiscard]] const kernels::hydra::Kernel& kernel() const { return kernel_; }
  [[nodiscard]] const at::Tensor& feature_scale() const { return feature_scale_; }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const {
    return mixer_.token_weights(grid);
  }

 private:
  const HydraMixer& mixer_;
  kernels::hydra::Kernel kernel_;
  at::Tensor feature_scale_;  ///< (D) or undefined
  double lambda_;
};

/// 2 N D multiply-adds and the kernels' passes (some 4 N D); 4 N D s bytes and one D-vector.
MixerCost hydra_cost(const MixerSize& size, double kernel_multiply_adds_per_element);

}  // namespace hydrascope::model
