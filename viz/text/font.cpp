#include "viz/text/font.h"

#include "kernels/error.h"
#include "viz/text/glyph_source.h"
#include "viz/text/utf8.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hydrascope::viz {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

/// A glyph where it stands: its origin, in whole pixels and the rest, and what it touches.
struct Placed {
  const GlyphSource* source;
  int glyph;
  int x;
  double shift;
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
  std::vector<GlyphSource> sources;

  struct Choice {
    const GlyphSource* source;
    int glyph;
  };
  [[nodiscard]] Choice choose(char32_t code_point) const {
    for (const char32_t wanted : {code_point, kReplacementCharacter}) {
      for (const GlyphSource& source : sources)
        if (const int glyph = source.glyph(wanted); glyph != 0) return {&source, glyph};
    }
    return {&sources.front(), 0};
  }

  [[nodiscard]] Line line(std::string_view text, double pixels) const {
    Line line;
    line.above = static_cast<int>(std::ceil(sources.front().ascent(pixels)));
    line.below = static_cast<int>(std::ceil(sources.front().descent(pixels)));
    double pen = 0;
    int leftmost = 0;
    Choice before{nullptr, 0};
    while (!text.empty()) {
      const CodePoint next = first_code_point(text);
      text.remove_prefix(next.bytes);
      const Choice choice = choose(visible(next.value));
      if (choice.source == before.source)
        pen += choice.source->kerning(before.glyph, choice.glyph, pixels);
      const int x = static_cast<int>(std::floor(pen));
      const double shift = pen - x;
      const InkBox ink = choice.source->ink(choice.glyph, pixels, shift);
      line.glyphs.push_back({choice.source, choice.glyph, x, shift, ink});
      pen += choice.source->advance(choice.glyph, pixels);
      leftmost = std::min(leftmost, x + ink.left);
      line.width = std::max({line.width, x + ink.right, static_cast<int>(std::ceil(pen))});
      line.above = std::max(line.above, -ink.top);
      line.below = std::max(line.below, ink.bottom);
      before = choice;
    }
    // A first letter that reaches back moves the line: nothing lies left of it.
    for (Placed& glyph : line.glyphs) glyph.x -= leftmost;
    line.width -= leftmost;
    return line;
  }
};

Font::Font(const std::vector<std::filesystem::path>& files) : state_(std::make_unique<State>()) {
  if (files.empty()) throw Error(ErrorCode::not_found, "no font file was named", "font");
  for (const std::filesystem::path& file : files) state_->sources.emplace_back(file);
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
    const std::vector<std::uint8_t> coverage =
        placed.source->coverage(placed.glyph, pixels, placed.shift, ink);
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
