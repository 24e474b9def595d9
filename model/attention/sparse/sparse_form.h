// Softmax over some of the keys, as kernels compute it.
#pragma once

#include "model/attention/kernel_form.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/inference/cpu/mixings/prefix_attention.h"

#include <cstdint>
#include <optional>

namespace hydrascope::model {

class SparseForm final : public KernelForm {
 public:
  explicit SparseForm(const SparseSoftmaxMixer& mixer) : mixer_(mixer) {}

  [[nodiscard]] HeadNetwork query(std::int64_t head_dim) const override {
    return softmax_queries(head_dim);
  }
  [[nodiscard]] std::optional<GridExtent> windows() const override { return mixer_.windows_; }
  [[nodiscard]] bool serves_windows() const override { return true; }
  /// Windows if patches lie window after window, else groups.
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override;
  [[nodiscard]] inference::PrefixWeights prefix_weights(const inference::MixingSite& site) const;

 private:
  const SparseSoftmaxMixer& mixer_;
};

}  // namespace hydrascope::model
