// The size that a model was trained at, for a remark on pictures that are far larger.
#pragma once

#include "model/image/transform_plan.h"

#include <string>

namespace hydrascope::app {

struct TrainedSize {
  std::string model;  ///< its name
  image::Size size;
  std::string advice;  ///< what is added to the remark: "; NAME is made for large pictures", or ""

  /// A note on answers at `asked`; "" if that is not far above.
  [[nodiscard]] std::string remark(const image::Size& asked) const;
};

}  // namespace hydrascope::app
