#include "app/pipeline/trained_size.h"

#include "app/options/requests.h"

namespace hydrascope::app {

std::string TrainedSize::remark(const image::Size& asked) const {
  constexpr double kFar = 2.5;  // times the edge
  const auto area = [](const image::Size& s) { return static_cast<double>(s.height * s.width); };
  if (area(asked) <= kFar * kFar * area(size)) return {};
  return model + " was trained at " + size_text(size) + " (HxW); answers at " + size_text(asked) +
         " are less accurate" + advice;
}

}  // namespace hydrascope::app
