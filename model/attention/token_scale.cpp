#include "model/attention/token_scale.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace hydrascope::model {
namespace {

constexpr std::array<std::pair<std::string_view, TokenScale>, 4> kTokenScales{
    {{"none", TokenScale::none},
     {"linear", TokenScale::linear},
     {"patch", TokenScale::patch},
     {"sqrt", TokenScale::sqrt}}};

}  // namespace

TokenScale parse_token_scale(std::string_view name) {
  for (const auto& [known, scale] : kTokenScales) {
    if (known == name) return scale;
  }
  throw Error(ErrorCode::internal, "there is no token scale '" + std::string(name) + "'");
}

std::vector<std::string> token_scale_names() {
  std::vector<std::string> names;
  for (const auto& [name, scale] : kTokenScales) names.emplace_back(name);
  return names;
}

TokenWeights token_weights(TokenScale scale, const TokenGrid& training, const TokenGrid& grid,
                           double growth) {
  const auto power = [&](std::int64_t before, std::int64_t now, double exponent) {
    return std::pow(
        static_cast<double>(before) / static_cast<double>(std::max<std::int64_t>(1, now)),
        exponent * growth);
  };
  switch (scale) {
    case TokenScale::none: return {};
    case TokenScale::linear: {
      const double weight = power(training.num_tokens(), grid.num_tokens(), 1);
      return {weight, weight};
    }
    case TokenScale::patch:
      return {1, power(training.num_image_tokens(), grid.num_image_tokens(), 1)};
    case TokenScale::sqrt: {
      const double weight = power(training.num_tokens(), grid.num_tokens(), 0.5);
      return {weight, weight};
    }
  }
  return {};
}

}  // namespace hydrascope::model
