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
  viz::Sign sign = viz::Sign::both;
  const viz::Colormap* colormap = nullptr;  ///< none: by whether the map has two signs
  double alpha = 0.5;
  bool fade = false;
  bool grey = false;  ///< the picture below the heat
  viz::Sampling sampling = viz::Sampling::smooth;
  bool colorbar = false;
  bool colorbar_numbers = false;  ///< of the bar, instead of "low" and "high"
  bool caption = false;           ///< contact sheets have captions always
  bool title = false;             ///< class and probability on a single map without a caption
  bool beside = false;            ///< the picture as it is in front of the maps
  double outlier_percent = 0;
  std::optional<double> outlined_mass;     ///< 0..1: the smallest set of cells that holds it
  LabelType label_type = LabelType::name;  ///< of captions
  std::string font;                        ///< a file, or ""

  /// Whether a figure of so many maps is more than a picture of that size; it needs a font, as a title does.
  [[nodiscard]] bool has_extras(std::size_t maps) const {
    return maps > 1 || colorbar || colorbar_numbers || caption || beside;
  }
};

/// A map ready to be drawn.
struct ShownMap {
  viz::HeatMap map;
  viz::ValueRange range;
  const viz::Colormap* colormap = nullptr;
  std::vector<std::string> caption;
  std::string quantity;
  MapChoice choice;
  viz::Placement placement = {};
  /// Parts of the picture that are framed, each with its class: the map's view, or what looks found.
  struct Mark {
    viz::Placement placement;
    std::string text;
  };
  std::vector<Mark> marks = {};
  bool is_marked = false;  ///< one of them has the map's class and its probability
};
ShownMap shown_map(const InputMap& map, const FigureOptions& options);

/// One map without extras at the picture's own size; else panels of a size by their number.
/// Several layers stand side by side, and a row is a method, head and class; else a
/// row is a method. A mark has its class at a corner, and its
/// probability where the class is not the answer's. `font` may be null where there
/// are neither marks nor a title nor extras. With `frame`, for
/// a video, the picture is shown in the middle of that size, as large as it fits, and the figure's
/// layout is the same for all frames of as many maps. Takes some 20 ms for two megapixels.
viz::Canvas draw_figure(viz::Canvas picture, std::span<const ShownMap> maps,
                        const FigureOptions& options, const viz::Font* font,
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
