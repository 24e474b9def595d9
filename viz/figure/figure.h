// Pictures with captions, alone, side by side or as a contact sheet.
#pragma once

#include "viz/picture/canvas.h"
#include "viz/text/font.h"

#include <string>
#include <vector>

namespace hydrascope::viz {

struct Panel {
  Canvas picture;
  std::vector<std::string> caption;  ///< a line each, below the picture; may be empty
};

struct FigureStyle {
  int columns = 0;      ///< panels per row; 0: as square as it gets
  int panel_width = 0;  ///< pictures are fitted into it; 0: their own size
  int panel_height = 0;
  /// For the frames of a video: the layout depends on the pictures and the number of lines, not on
  /// their words. A line of a caption stays one and ends in an ellipsis where it is too long.
  bool steady = false;
  Color background{255, 255, 255};
  Color text{32, 32, 32};
};

/// A row of panels after the other. One panel without a caption is its picture.
/// Captions are broken between words where they are wider than their panel. Throws
/// Error(too_large) above 2^28 pixels.
Canvas make_figure(const std::vector<Panel>& panels, const FigureStyle& style, const Font& font);

}  // namespace hydrascope::viz
