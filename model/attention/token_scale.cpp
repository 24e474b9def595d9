#include "model/attention/token_scale.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
ChoiceOption<TokenScale> token_scale_option() {
  ChoiceOption<TokenScale> option("scale",
                                  {{"none", TokenScale::none},
                                   {"linear", TokenScale::linear},
                                   {"patch", TokenScale::patch},
                                   {"sqrt", TokenScale::sqrt}},
                                  "correction of the sum at a size other than the training size");
  option.default_value = "linear";
  return option;
}

TokenWeights token_weights(TokenScale scale, const TokenGrid& training, const TokenGrid& grid,
                           double growth) {
  const auto power = [&](std::int64_t before, std::int64_t now, double exponent) {
    return std::pow(
        static_cast<double>(before) / static_cast<double>(std::max<std::int64_t>(1, now)),
        exponent * growth);
  };
  const auto weights = [&](double prefix, double patch) {
    return TokenWeights{grid.num_prefix, prefix, patch};
  };
  switch (scale) {
    case TokenScale::none: break;
    case TokenScale::linear: {
      const double weight = power(training.num_tokens(), grid.num_tokens(), 1);
      return weights(weight, weight);
    }
    case TokenScale::patch:
      return weights(1, power(training.num_image_tokens(), grid.num_image_tokens(), 1));
    case TokenScale::sqrt: {
      const double weight = power(training.num_tokens(), grid.num_tokens(), 0.5);
      return weights(weight, weight);
    }
  }
  return weights(1, 1);
}

double log_scale(const TokenGrid& training, const TokenGrid& grid) {
  const auto logarithm = [](const TokenGrid& of) {
    return std::log(static_cast<double>(std::max<std::int64_t>(of.num_tokens(), 2)));
  };
  return std::max(1.0, logarithm(grid) / logarithm(training));
}

}  // namespace hydrascope::model
