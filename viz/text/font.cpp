// stb_truetype, https://github.com/nothings/stb (public domain). The implementation is compiled
// here, with internal linkage so that another copy in the process cannot clash with it.
#include "viz/text/font.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "viz/text/utf8.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#include <stb/stb_truetype.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace hydrascope::viz {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

/// Pixels that a glyph may touch, relative to its origin on the baseline; y grows downwards.
struct InkBox {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

/// A glyph where it stands: its origin, in whole pixels and the rest, and what it touches.
struct Placed {
  int glyph;
  int x;
  float shift;
  InkBox ink;
};

struct Line {
  std::vector<Placed> glyphs;
  int width = 0;
  int above = 0;  ///< of the baseline
  int below = 0;
};

/// Line breaks and other controls are spaces in the one line that there is.
char32_t visible(char32_t code_point) { return is_control(code_point) ? U' ' : code_point; }

void blend(std::uint8_t* pixel, Color color, std::uint8_t coverage) {
  const auto mixed = [coverage](std::uint8_t below, std::uint8_t above) {
    return static_cast<std::uint8_t>((below * (255 - coverage) + above * coverage + 127) / 255);
  };
  pixel[0] = mixed(pixel[0], color.red);
  pixel[1] = mixed(pixel[1], color.green);
  pixel[2] = mixed(pixel[2], color.blue);
}

}  // namespace

struct Font::State {
  std::string bytes;
  stbtt_fontinfo font{};

  [[nodiscard]] float scale(double pixels) const {
    return stbtt_ScaleForMappingEmToPixels(&font, static_cast<float>(pixels));
  }

  /// U+FFFD's where the font lacks a character.
  [[nodiscard]] int glyph(char32_t code_point) const {
    const int found = stbtt_FindGlyphIndex(&font, static_cast<int>(code_point));
    return found != 0 ? found : stbtt_FindGlyphIndex(&font, kReplacementCharacter);
  }

  /// Coverage 0..255 of the pixels of a glyph's box, row by row.
  [[nodiscard]] std::vector<std::uint8_t> coverage(const Placed& placed, double pixels) const {
    const int width = placed.ink.right - placed.ink.left;
    const int height = placed.ink.bottom - placed.ink.top;
    std::vector<std::uint8_t> values(static_cast<std::size_t>(width) *
                                     static_cast<std::size_t>(height));
    stbtt_MakeGlyphBitmapSubpixel(&font, values.data(), width, height, width, scale(pixels),
                                  scale(pixels), placed.shift, 0, placed.glyph);
    return values;
  }

  [[nodiscard]] Line line(std::string_view text, double pixels) const {
    const float scale = this->scale(pixels);
    const auto scaled = [scale](int units) { return units * static_cast<double>(scale); };
    int ascent = 0;
    int descent = 0;
    stbtt_GetFontVMetrics(&font, &ascent, &descent, nullptr);
    Line line;
    line.above = static_cast<int>(std::ceil(scaled(ascent)));
    line.below = static_cast<int>(std::ceil(-scaled(descent)));
    double pen = 0;
    int leftmost = 0;
    int before = -1;
    while (!text.empty()) {
      const CodePoint next = first_code_point(text);
      text.remove_prefix(next.bytes);
      const int glyph = this->glyph(visible(next.value));
      if (before >= 0) pen += scaled(stbtt_GetGlyphKernAdvance(&font, before, glyph));
      const int x = static_cast<int>(std::floor(pen));
      const auto shift = static_cast<float>(pen - x);
      InkBox ink;
      stbtt_GetGlyphBitmapBoxSubpixel(&font, glyph, scale, scale, shift, 0, &ink.left, &ink.top,
                                      &ink.right, &ink.bottom);
      line.glyphs.push_back({glyph, x, shift, ink});
      int advance = 0;
      stbtt_GetGlyphHMetrics(&font, glyph, &advance, nullptr);
      pen += scaled(advance);
      leftmost = std::min(leftmost, x + ink.left);
      line.width = std::max({line.width, x + ink.right, static_cast<int>(std::ceil(pen))});
      line.above = std::max(line.above, -ink.top);
      line.below = std::max(line.below, ink.bottom);
      before = glyph;
    }
    // A first letter that reaches back moves the line: nothing lies left of it.
    for (Placed& glyph : line.glyphs) glyph.x -= leftmost;
    line.width -= leftmost;
    return line;
  }
};

Font::Font(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  InputFile in(file);
  in.require_open(file);
  state_->bytes = in.text();
  constexpr std::size_t kHeader = 12;
  const auto* bytes = reinterpret_cast<const unsigned char*>(state_->bytes.data());
  const int offset = state_->bytes.size() < kHeader ? -1 : stbtt_GetFontOffsetForIndex(bytes, 0);
  if (offset < 0 || stbtt_InitFont(&state_->font, bytes, offset) == 0)
    throw Error(ErrorCode::decode_failed, "is not a TrueType font", file.native());
}
Font::~Font() = default;
Font::Font(Font&&) noexcept = default;
Font& Font::operator=(Font&&) noexcept = default;

TextSize Font::measure(std::string_view text, double pixels) const {
  const Line line = state_->line(text, pixels);
  return {line.width, line.above + line.below, line.above};
}

int Font::draw(Canvas& canvas, std::string_view text, int x, int y, double pixels,
               Color color) const {
  const Line line = state_->line(text, pixels);
  for (const Placed& placed : line.glyphs) {
    const InkBox& ink = placed.ink;
    const std::vector<std::uint8_t> coverage = state_->coverage(placed, pixels);
    const int left = x + placed.x + ink.left;
    const int top = y + line.above + ink.top;
    const int width = ink.right - ink.left;
    const int first_row = std::max(0, -top);
    const int last_row = std::min(ink.bottom - ink.top, canvas.height - top);
    const int first_column = std::max(0, -left);
    const int last_column = std::min(width, canvas.width - left);
    for (int row = first_row; row < last_row; ++row) {
      for (int column = first_column; column < last_column; ++column) {
        const std::uint8_t covered =
            coverage[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
                     static_cast<std::size_t>(column)];
        if (covered != 0) blend(pixel(canvas, left + column, top + row), color, covered);
      }
    }
  }
  return x + line.width;
}

std::string Font::fit(std::string_view text, double pixels, int width) const {
  if (measure(text, pixels).width <= width) return std::string(text);
  // The longest beginning that has room before an ellipsis.
  std::vector<std::size_t> ends{0};
  while (ends.back() < text.size())
    ends.push_back(ends.back() + first_code_point(text.substr(ends.back())).bytes);
  const auto shortened = [&](std::size_t end) {
    const std::size_t last = text.find_last_not_of(' ', end == 0 ? 0 : end - 1);
    return std::string(text.substr(0, end == 0 || last == text.npos ? 0 : last + 1)) +
           std::string(kEllipsis);
  };
  const auto too_long = std::ranges::partition_point(
      ends, [&](std::size_t end) { return measure(shortened(end), pixels).width <= width; });
  return too_long == ends.begin() ? std::string() : shortened(*(too_long - 1));
}

}  // namespace hydrascope::viz
