// Softmax over all tokens, as kernels compute it.
#pragma once

#include "model/attention/kernel_form.h"
#include "model/inference/cpu/mixings/softmax.h"

#include <cstdint>
#include <functional>
#include <utility>

namespace hydrascope::model {

class SoftmaxForm final : public KernelForm {
 public:
  /// `query_scale`: the factor of queries at a size, beside 1 / sqrt(d).
  explicit SoftmaxForm(std::function<double(const TokenGrid&)> query_scale)
      : query_scale_(std::move(query_scale)) {}

  [[nodiscard]] HeadNetwork query(std::int64_t head_dim) const override {
    return softmax_queries(head_dim);
  }
  [[nodiscard]] bool serves_windows() const override { return true; }
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override {
    return inference::make_mixing<inference::SoftmaxMixing>(
        storage, site, static_cast<float>(query_scale(site.grid)));
  }
  [[nodiscard]] double query_scale(const TokenGrid& grid) const { return query_scale_(grid); }

 private:
  std::function<double(const TokenGrid&)> query_scale_;
};

}  // namespace hydrascope::model
