// A mixer's function as kernels compute it, for plans of every device. A mixer without a form runs
// as a module inside the plan.
#pragma once

#include "model/attention/token_grid.h"
#include "model/inference/cpu/mixing.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

namespace hydrascope::model {

class SparseForm;

/// u = scale * (x W + b) of each head, in front of a feature map; undefined tensors: W = 1, b = 0.
struct HeadNetwork {
  at::Tensor weight;  ///< (H, d, w) or (d, w), float
  at::Tensor bias;    ///< (H, w) or (w)
  double scale = 1;
};

/// Queries as softmax reads them: q / sqrt(d).
inline HeadNetwork softmax_queries(std::int64_t head_dim) {
  return {{}, {}, 1 / std::sqrt(static_cast<double>(head_dim))};
}

/// Queries and keys come as the mixer's position rule, if there is one, has turned them. The mixer
/// outlives its forms.
class KernelForm {
 public:
  KernelForm() = default;
  KernelForm(const KernelForm&) = delete;
  KernelForm& operator=(const KernelForm&) = delete;
  virtual ~KernelForm() = default;

  /// The networks that the projections of queries and keys take in, for heads of d features.
  [[nodiscard]] virtual HeadNetwork query(std::int64_t /*head_dim*/) const { return {}; }
  [[nodiscard]] virtual HeadNetwork key(std::int64_t /*head_dim*/) const { return {}; }
  /// Windows of patches that should lie one after the other.
  [[nodiscard]] virtual std::optional<GridExtent> windows() const { return std::nullopt; }
  /// Whether there are kernels also for patches that lie row after row.
  [[nodiscard]] virtual bool serves_rows() const { return true; }
  /// Whether they serve patches that lie as another layer's windows want (`MixingSite::order`).
  [[nodiscard]] virtual bool serves_windows() const { return false; }
  /// The CPU plan's object, at a site that the form serves.
  [[nodiscard]] virtual inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                                    kernels::Storage storage) const = 0;
  /// The form of this mixing with the outputs of `windows` added, a form that has windows; null: there
  /// are no such kernels.
  [[nodiscard]] virtual std::unique_ptr<KernelForm> beside(
      const std::shared_ptr<const SparseForm>& /*windows*/) const {
    return nullptr;
  }
  /// The form of this mixing whose sums over the tokens are means with the sums of earlier frames
  /// (memories/state.cpp); null: there are no such kernels.
  [[nodiscard]] virtual std::unique_ptr<KernelForm> carrying(double /*lambda*/) const {
    return nullptr;
  }
};

}  // namespace hydrascope::model
