#include "app/visualize/picture_placement.h"

namespace hydrascope::app {

viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size) {
  return {{picture.height, plan.resized.height, plan.window_top, plan.cropped.height,
           plan.output.height, plan.output.height / patch_size},
          {picture.width, plan.resized.width, plan.window_left, plan.cropped.width,
           plan.output.width, plan.output.width / patch_size}};
}

}  // namespace hydrascope::app
