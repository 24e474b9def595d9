// Pictures with captions and colour bars, alone, side by side or as a contact sheet.
#pragma once

#include "viz/figure/color_bar.h"
#include "viz/picture/canvas.h"
#include "viz/text/font.h"

#include <optional>
#include <string>
#include <vector>

namespace hydrascope::viz {

struct Panel {
  Canvas picture;
  std::vector<std::string> caption;  ///< a line each, below the picture; may be empty
  std::optional<ColorBar> bar;
};

struct FigureStyle {
  int columns = 0;      ///< panels per row; 0: as square as it gets
  int panel_width = 0;  ///< pictures are fitted into it; 0: their own size
  int panel_height = 0;
  std::string title;  ///< above all; may be empty
  /// For the frames of a video: the layout depends on the pictures and on what there is to say, not
  /// on the words and numbers. A line of a caption stays one and ends in an ellipsis where it is
  /// too long; a bar has room for any usual number.
  bool steady = false;
  Color background{255, 255, 255};
  Color text{32, 32, 32};
};

/// A row of panels after the other. One panel without caption, bar and title is its picture.
/// Captions are broken between words where they are wider than their panel. Throws
/// Error(too_large) above 2^28 pixels.
Canvas make_figure(const std::vector<Panel>& panels, const FigureStyle& style, const Font& font);

}  // namespace hydrascope::viz
