// A position rule for some of a layer's heads, in mechanisms whose heads are of several kinds.
#pragma once

#include "model/attention/positions/position_rule.h"

#include <cstdint>
#include <memory>
#include <utility>

namespace hydrascope::model {

/// `rule` for the heads from `first_head` on, which are counted from there. Their queries and keys come
/// turned.
class RuleOfHeads final : public PositionRule {
 public:
  RuleOfHeads(std::shared_ptr<const PositionRule> rule, std::int64_t first_head)
      : rule_(std::move(rule)), first_head_(first_head) {}

  [[nodiscard]] bool changes_scores() const override { return rule_->changes_scores(); }
  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    return rule_->scores(q, k, of_layer(pairs));
  }
  [[nodiscard]] bool adds_values() const override { return rule_->adds_values(); }
  [[nodiscard]] at::Tensor added_values(const at::Tensor& weights,
                                        const TokenPairs& pairs) const override {
    return rule_->added_values(weights, of_layer(pairs));
  }
  [[nodiscard]] at::Tensor value_products(const at::Tensor& g,
                                          const TokenPairs& pairs) const override {
    return rule_->value_products(g, of_layer(pairs));
  }

 private:
  [[nodiscard]] TokenPairs of_layer(TokenPairs pairs) const {
    pairs.first_head += first_head_;
    return pairs;
  }

  std::shared_ptr<const PositionRule> rule_;
  std::int64_t first_head_;
};

}  // namespace hydrascope::model
