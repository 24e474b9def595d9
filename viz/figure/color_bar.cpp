#include "viz/figure/color_bar.h"

#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace hydrascope::viz {
namespace {

int whole(double pixels) { return std::max(1, static_cast<int>(std::lround(pixels))); }

/// Room for `height` / 2.2 lines of text between marks, but no more than a reader wants.
int most_ticks(int height, double text_pixels) {
  return std::clamp(static_cast<int>(height / (2.2 * text_pixels)), 2, 9);
}

constexpr const char* kLow = "low";
constexpr const char* kHigh = "high";

Ticks marks_of(const ColorBar& bar, int most) {
  if (!bar.words) return ticks_of(bar.range, most);
  Ticks ends{{{bar.range.low, kLow}}, 0};
  if (bar.range.high > bar.range.low) ends.ticks.push_back({bar.range.high, kHigh});
  return ends;
}

std::vector<std::string> footer_lines(const ColorBar& bar, const Ticks& ticks) {
  std::vector<std::string> lines;
  if (!bar.label.empty()) lines.push_back(bar.label);
  if (ticks.exponent != 0) lines.push_back(ticks.factor());
  return lines;
}

}  // namespace

ColorBarLayout::ColorBarLayout(const ColorBar& bar, int height, const Font& font,
                               double text_pixels, bool steady)
    : bar_(bar),
      font_(font),
      text_pixels_(text_pixels),
      height_(height),
      bar_width_(whole(text_pixels)),
      tick_length_(whole(text_pixels / 4)),
      text_gap_(whole(text_pixels / 4)),
      ticks_(marks_of(bar, most_ticks(height, text_pixels))),
      width_(bar_width_),
      footer_(footer_lines(bar, ticks_), font, text_pixels, whole(8 * text_pixels)),
      footer_height_(footer_.height()) {
  if (bar.colormap == nullptr) throw Error(ErrorCode::internal, "no colour map", "colour bar");
  const auto make_room = [&](std::string_view number) {
    const int text_width = font.measure(number, text_pixels).width;
    width_ = std::max(width_, bar_width_ + tick_length_ + text_gap_ + text_width);
  };
  if (bar.words) {
    for (const char* word : {kLow, kHigh}) make_room(word);
    return;
  }
  if (!steady) {
    for (const Tick& tick : ticks_.ticks) make_room(tick.text);
    width_ = std::max(width_, footer_.width());
    return;
  }
  // The margin holds the rest of a wider number.
  constexpr std::string_view kWideNumber = "\u22120.00000";
  constexpr int kSmallestExponent = -38;  // of a float
  make_room(kWideNumber);
  const TextBlock fullest(footer_lines(bar, {{}, kSmallestExponent}), font, text_pixels,
                          whole(8 * text_pixels));
  width_ = std::max(width_, fullest.width());
  footer_height_ = std::max(footer_height_, fullest.height());
}

void ColorBarLayout::draw(Canvas& canvas, int x, int y, int footer_y, Color text) const {
  const int frame = whole(text_pixels_ / 14);
  fill_rectangle(canvas, x, y, bar_width_, height_, text);
  const int inner = height_ - 2 * frame;
  for (int row = 0; row < inner; ++row) {
    // The largest value is on top.
    const double t = inner > 1 ? 1 - static_cast<double>(row) / (inner - 1) : 1;
    fill_rectangle(canvas, x + frame, y + frame + row, bar_width_ - 2 * frame, 1,
                   bar_.colormap->color(static_cast<std::size_t>(std::lround(255 * t))));
  }
  const double span = double{bar_.range.high} - double{bar_.range.low};
  for (const Tick& tick : ticks_.ticks) {
    const double t = span > 0 ? (tick.value - double{bar_.range.low}) / span
                              : (bar_.colormap->diverging ? 0.5 : 0);
    const int centre = y + frame + static_cast<int>(std::lround((1 - t) * (inner - 1)));
    fill_rectangle(canvas, x + bar_width_, std::clamp(centre - frame / 2, y, y + height_ - frame),
                   tick_length_, frame, text);
    // Digits are about as high as 3/4 of the size; those at the ends stay beside the bar.
    const TextSize size = font_.measure(tick.text, text_pixels_);
    const int top = centre - size.baseline + whole(text_pixels_ * 0.365);
    const int digits = whole(text_pixels_ * 0.73);
    const int highest = y - (size.baseline - digits);
    font_.draw(canvas, tick.text, x + bar_width_ + tick_length_ + text_gap_,
               std::clamp(top, highest, std::max(highest, y + height_ - size.baseline)),
               text_pixels_, text);
  }
  footer_.draw(canvas, x, footer_y, text);
}

}  // namespace hydrascope::viz
