// Text on a canvas, from a TrueType font, in any language that the font has. Only its source includes stb_truetype.
#pragma once

#include "viz/picture/canvas.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace hydrascope::viz {

struct TextSize {
  int width = 0;
  int height = 0;    ///< of a line: ascent + descent
  int baseline = 0;  ///< from the top
};

class Font {
 public:
  /// Bytes that are no UTF-8 and characters that the font lacks become U+FFFD. The content of a font is
  /// trusted: it is the one that comes with the program. Throws Error(not_found, unreadable), and
  /// Error(decode_failed) for a file that is no font.
  explicit Font(const std::filesystem::path& file);
  ~Font();
  Font(Font&&) noexcept;
  Font& operator=(Font&&) noexcept;

  [[nodiscard]] TextSize measure(std::string_view text, double pixels) const;
  /// One line; (x, y) is its upper left corner. Returns the x after it.
  int draw(Canvas& canvas, std::string_view text, int x, int y, double pixels, Color color) const;
  /// As many characters as fit into `width`, with an ellipsis where some do not.
  [[nodiscard]] std::string fit(std::string_view text, double pixels, int width) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::viz
