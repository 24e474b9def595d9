#include "model/training/data/random_erasing.h"

#include <cmath>
#include <cstdint>

namespace hydrascope::model::training {
namespace {

constexpr double kLeastArea = 0.02;
constexpr double kMostArea = 1.0 / 3;
constexpr double kLeastAspect = 0.3;

}  // namespace

void erase_randomly(double probability, image::Size size, float* image, RandomStream& stream) {
  if (!stream.chance(probability)) return;
  constexpr int kTries = 10;
  const auto area = static_cast<double>(size.height * size.width);
  for (int i = 0; i < kTries; ++i) {
    const double target = area * stream.uniform(kLeastArea, kMostArea);
    const double log_aspect = std::log(kLeastAspect);
    const double aspect = std::exp(stream.uniform(log_aspect, -log_aspect));
    // Python's round: half to even.
    const auto height = static_cast<std::int64_t>(std::nearbyint(std::sqrt(target * aspect)));
    const auto width = static_cast<std::int64_t>(std::nearbyint(std::sqrt(target / aspect)));
    if (height >= size.height || width >= size.width) continue;
    const auto top = static_cast<std::int64_t>(stream.below(size.height - height + 1));
    const auto left = static_cast<std::int64_t>(stream.below(size.width - width + 1));
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = top; y < top + height; ++y) {
        float* row = image + (c * size.height + y) * size.width;
        for (std::int64_t x = left; x < left + width; ++x)
          row[x] = static_cast<float>(stream.normal());
      }
    }
    return;
  }
}

}  // namespace hydrascope::model::training
