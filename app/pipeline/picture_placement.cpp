#include "app/pipeline/picture_placement.h"

namespace hydrascope::app {

viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size) {
  return {{picture.height, plan.resized.height, plan.window_top, plan.cropped.height,
           plan.output.height, plan.output.height / patch_size},
          {picture.width, plan.resized.width, plan.window_left, plan.cropped.width,
           plan.output.width, plan.output.width / patch_size}};
}

Box box_of(const image::TransformPlan& plan, image::Size picture) {
  const viz::Placement placement = placement_of(plan, picture, /*patch_size=*/1);
  const viz::SeenRange rows = viz::seen(placement.vertical);
  const viz::SeenRange columns = viz::seen(placement.horizontal);
  return {columns.begin, rows.begin, columns.end - columns.begin, rows.end - rows.begin};
}

}  // namespace hydrascope::app
