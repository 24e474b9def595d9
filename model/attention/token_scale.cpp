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

TokenWeights token_weights(TokenScale scale, const TokenGrid& training, const TokenGrid& grid) {
  const double ratio =
      static_cast<double>(training.num_tokens()) / static_cast<double>(grid.num_tokens());
  switch (scale) {
    case TokenScale::none: return {};
    case TokenScale::linear: return {ratio, ratio};
    case TokenScale::patch: {
      const auto patches = static_cast<double>(std::max<std::int64_t>(1, grid.rows * grid.columns));
      return {1, static_cast<double>(training.rows * training.columns) / patches};
    }
    case TokenScale::sqrt: return {std::sqrt(ratio), std::sqrt(ratio)};
  }
  return {};
}

}  // namespace hydrascope::model
