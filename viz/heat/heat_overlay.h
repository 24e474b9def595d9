// A heat map drawn over its picture, at the picture's own size.
#pragma once

#include "viz/heat/heat_map.h"
#include "viz/heat/placement.h"
#include "viz/picture/canvas.h"
#include "viz/scale/colormap.h"

namespace hydrascope::viz {

struct OverlayStyle {
  const Colormap* colormap = nullptr;  ///< must be set
  double alpha = 0.8;                  ///< share of the colour of the most heat, 0..1
  double unseen_brightness = 0.6;      ///< of what the model did not see
};

/// Over all of `picture`, whose size is `placement`'s: smooth between cells, the share of the colour in
/// proportion to the heat (to its magnitude with a diverging map). Cells of NaN show the picture.
void draw_heat(Canvas& picture, const HeatMap& map, const ValueRange& range,
               const Placement& placement, const OverlayStyle& style);

/// A light line `thickness` pixels wide around what the model saw, over what it did not see. None
/// where it saw the whole picture.
void frame_seen(Canvas& picture, const Placement& placement, int thickness);

}  // namespace hydrascope::viz
