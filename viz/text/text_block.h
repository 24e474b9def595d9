// Lines of text, one below the other.
#pragma once

#include "viz/picture/canvas.h"
#include "viz/text/font.h"

#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::viz {

class TextBlock {
 public:
  /// Each of `lines` is broken between words where it is wider than `width`, into at most
  /// `most_lines`; what has no room then, or is one long word, ends in an ellipsis.
  TextBlock(const std::vector<std::string>& lines, const Font& font, double pixels, int width,
            int most_lines = 3);

  [[nodiscard]] int width() const noexcept { return width_; }  ///< of the widest
  [[nodiscard]] int height() const noexcept { return height_; }
  [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }
  void draw(Canvas& canvas, int x, int y, Color color) const;

 private:
  void add(std::string_view line, int width, int most_lines);

  const Font& font_;
  double pixels_;
  std::vector<std::string> lines_;
  std::vector<int> tops_;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace hydrascope::viz
