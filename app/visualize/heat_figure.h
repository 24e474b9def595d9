// The content of an input's heatmap file: one map over the picture, or a contact sheet of several.
#pragma once

#include "app/maps/input_map.h"
#include "viz/figure/figure.h"
#include "viz/heat/heat_map.h"
#include "viz/heat/heat_overlay.h"
#include "viz/heat/placement.h"
#include "viz/picture/canvas.h"
#include "viz/scale/colormap.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

struct FigureOptions {
  viz::Sign sign = viz::Sign::positive;
  const viz::Colormap* colormap = nullptr;  ///< none: by whether the map has two signs
  double alpha = 0.8;
  bool caption = false;  ///< contact sheets have captions always
  bool title = false;    ///< class and probability on a single map without a caption
  bool beside = false;   ///< the picture as it is in front of the maps
  LabelType label_type = LabelType::name;  ///< of captions

  /// Whether a figure of so many maps is more than a picture of that size.
  [[nodiscard]] bool has_extras(std::size_t maps) const { return maps > 1 || caption || beside; }
};

/// A map ready to be drawn.
struct ShownMap {
  viz::HeatMap map;
  viz::ValueRange range;
  const viz::Colormap* colormap = nullptr;
  std::vector<std::string> caption;
  MapChoice choice;
  viz::Placement placement = {};
  std::optional<std::array<std::int64_t, 2>> mark = {};  ///< of the class: `Prediction::mark`
};
ShownMap shown_map(const InputMap& map, const FigureOptions& options);

/// One map without extras at the picture's own size; else panels of a size by their number.
/// Several layers stand side by side, and a row is a method, head and class; else a
/// row is a method. A mark is a cross with the class beside it. With `frame`, for
/// a video, the picture is shown in the middle of that size, as large as it fits, and the figure's
/// layout is the same for all frames of as many maps. Takes some 20 ms for two megapixels.
viz::Canvas draw_figure(viz::Canvas picture, std::span<const ShownMap> maps,
                        const FigureOptions& options,
                        std::optional<viz::Size> frame = std::nullopt);

/// The maps of a video's frames, with colours that do not flicker: the range that the first and the
/// last colour stand for keeps 0.9 of what it was with each frame. If a map's method depends on
/// the class and the class changes, its range starts anew: maps of two classes have nothing in
/// common.
class SteadyColors {
 public:
  /// The maps of the next frame, always of the same number and order.
  std::vector<ShownMap> shown(std::span<const InputMap> maps, const FigureOptions& options);

 private:
  struct Slot {
    std::int64_t class_index;
    viz::ValueRange range;
  };
  std::vector<Slot> slots_;  // of the maps, in their order
};

}  // namespace hydrascope::app
