#include "viz/text/text_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hydrascope::viz {

TextBlock::TextBlock(const std::vector<std::string>& lines, const Font& font, double pixels,
                     int width, int most_lines)
    : font_(font), pixels_(pixels) {
  for (const std::string& line : lines) add(line, width, most_lines);
  const int leading = static_cast<int>(std::ceil(pixels * 0.15));
  for (const std::string& line : lines_) {
    const TextSize size = font_.measure(line, pixels_);
    if (!tops_.empty()) height_ += leading;
    tops_.push_back(height_);
    width_ = std::max(width_, size.width);
    height_ += size.height;
  }
}

void TextBlock::add(std::string_view line, int width, int most_lines) {
  for (int count = 1; count < most_lines && font_.measure(line, pixels_).width > width; ++count) {
    // The last space before which all has room.
    std::size_t end = line.npos;
    for (std::size_t space = line.find(' '); space != line.npos;
         space = line.find(' ', space + 1)) {
      if (font_.measure(line.substr(0, space), pixels_).width > width) break;
      end = space;
    }
    if (end == line.npos || end == 0) break;
    lines_.emplace_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  lines_.push_back(font_.fit(line, pixels_, width));
}

void TextBlock::draw(Canvas& canvas, int x, int y, Color color) const {
  for (std::size_t i = 0; i < lines_.size(); ++i)
    font_.draw(canvas, lines_[i], x, y + tops_[i], pixels_, color);
}

}  // namespace hydrascope::viz
