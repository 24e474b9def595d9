// The meaning of a map's colours: a bar of them, beside the picture, with its values.
#pragma once

#include "viz/picture/canvas.h"
#include "viz/scale/colormap.h"
#include "viz/scale/ticks.h"
#include "viz/text/font.h"
#include "viz/text/text_block.h"

#include <string>
#include <vector>

namespace hydrascope::viz {

struct ColorBar {
  const Colormap* colormap = nullptr;  ///< must be set
  ValueRange range;
  std::string label;   ///< what the numbers are; may be empty
  bool words = false;  ///< the ends are "low" and "high" instead of numbers
};

/// A bar laid out for a height: first measured, then drawn.
class ColorBarLayout {
 public:
  /// With `steady` the size depends on the height and the label alone, not on the range.
  ColorBarLayout(const ColorBar& bar, int height, const Font& font, double text_pixels,
                 bool steady = false);

  [[nodiscard]] int width() const noexcept { return width_; }
  /// Height of the lines below the bar: its label, and the power of ten that its numbers are times.
  [[nodiscard]] int footer_height() const noexcept { return footer_height_; }
  /// The bar is `height` pixels from (x, y) down; the footer begins at `footer_y`.
  void draw(Canvas& canvas, int x, int y, int footer_y, Color text) const;

 private:
  const ColorBar& bar_;
  const Font& font_;
  double text_pixels_;
  int height_;
  int bar_width_;
  int tick_length_;
  int text_gap_;
  Ticks ticks_;
  int width_;
  TextBlock footer_;
  int footer_height_;
};

}  // namespace hydrascope::viz
