// A heat map drawn over its picture, at the picture's own size.
#pragma once

#include "viz/heat/heat_map.h"
#include "viz/heat/placement.h"
#include "viz/picture/canvas.h"
#include "viz/scale/colormap.h"

#include <cstdint>
#include <vector>

namespace hydrascope::viz {

enum class Sampling { smooth, nearest };

struct OverlayStyle {
  const Colormap* colormap = nullptr;  ///< must be set
  double alpha = 0.5;                  ///< share of the colour, 0..1
  bool fade = false;  ///< the share falls with the heat (by magnitude for diverging maps)
  Sampling sampling = Sampling::smooth;
  double unseen_brightness = 0.6;  ///< of what the model did not see
};

/// Over all of `picture`, whose size is `placement`'s. Cells of NaN show the picture.
void draw_heat(Canvas& picture, const HeatMap& map, const ValueRange& range,
               const Placement& placement, const OverlayStyle& style);

/// A light line `thickness` pixels wide around what the model saw, over what it did not see. None
/// where it saw the whole picture.
void frame_seen(Canvas& picture, const Placement& placement, int thickness);

/// The border of a set of cells (rows * columns, 1 for those in it) in white with a dark edge,
/// `thickness` pixels wide, clipped to what the model saw.
void outline_cells(Canvas& picture, const std::vector<std::uint8_t>& cells,
                   const Placement& placement, int thickness);

}  // namespace hydrascope::viz
