#include "model/attention/logit_scale.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::model {

MechanismOption logit_scale_option() {
  return choice_option(
      "logit_scale", "none", {"none", "log"},
      "scores of a query that sees all tokens times ln N / ln N_train, at least 1");
}

double logit_scale(const MechanismOptions& options, const TokenGrid& training,
                   const TokenGrid& grid) {
  return options.text("logit_scale") == "none" ? 1 : log_scale(training, grid);
}

double log_scale(const TokenGrid& training, const TokenGrid& grid) {
  const auto logarithm = [](const TokenGrid& of) {
    return std::log(static_cast<double>(std::max<std::int64_t>(of.num_tokens(), 2)));
  };
  return std::max(1.0, logarithm(grid) / logarithm(training));
}

}  // namespace hydrascope::model
