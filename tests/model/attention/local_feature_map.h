// Feature maps written in a test, for identities that need one that no mechanism has.
#pragma once

#include "model/attention/linear/feature_map.h"

#include <ATen/ATen.h>

#include <functional>
#include <utility>

namespace hydrascope::testing {

class LocalFeatureMap : public model::FeatureMap {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& x, model::Side side,
                                            const model::TokenSpan& span)>;
  LocalFeatureMap(Values values, Function function)
      : values_(values), function_(std::move(function)) {}

  [[nodiscard]] Values values() const override { return values_; }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x, model::Side side,
                                      const model::TokenSpan& span) const override {
    return function_(x, side, span);
  }

 private:
  Values values_;
  Function function_;
};

/// The same function of queries and keys.
inline model::FeatureMapPtr features(std::function<at::Tensor(const at::Tensor&)> phi) {
  return c10::make_intrusive<LocalFeatureMap>(
      model::FeatureMap::Values::features,
      [phi = std::move(phi)](const at::Tensor& x, model::Side, const model::TokenSpan&) {
        return phi(x);
      });
}

/// Exponents U of queries and W of keys.
inline model::FeatureMapPtr logarithms(LocalFeatureMap::Function function) {
  return c10::make_intrusive<LocalFeatureMap>(model::FeatureMap::Values::logarithms,
                                              std::move(function));
}

}  // namespace hydrascope::testing
