// One TrueType file: from characters to shapes. Only its source includes stb_truetype.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace hydrascope::viz {

/// Pixels that a glyph may touch, relative to its origin on the baseline; y grows downwards.
struct InkBox {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

class GlyphSource {
 public:
  /// The content of a font is trusted: the fonts are those that come with the program. Throws
  /// Error(not_found, unreadable), and Error(decode_failed) for a file that is no font.
  explicit GlyphSource(const std::filesystem::path& file);
  ~GlyphSource();
  GlyphSource(GlyphSource&&) noexcept;
  GlyphSource& operator=(GlyphSource&&) noexcept;

  /// 0 where the font has none.
  [[nodiscard]] int glyph(char32_t code_point) const;
  // All of these at `pixels` an em.
  [[nodiscard]] double advance(int glyph, double pixels) const;
  [[nodiscard]] double kerning(int left, int right, double pixels) const;
  [[nodiscard]] double ascent(double pixels) const;
  [[nodiscard]] double descent(double pixels) const;  ///< positive
  /// `shift`: 0..1, how far the origin is from the left edge of its pixel.
  [[nodiscard]] InkBox ink(int glyph, double pixels, double shift) const;
  /// Coverage 0..255 of the pixels of that box, row by row.
  [[nodiscard]] std::vector<std::uint8_t> coverage(int glyph, double pixels, double shift,
                                                   const InkBox& box) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::viz
