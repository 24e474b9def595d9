// Pixels to draw on.
#pragma once

#include <cstdint>
#include <vector>

namespace hydrascope::viz {

struct Color {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(const Color&, const Color&) = default;
};

/// 8-bit RGB, rows top to bottom, as model/image's Picture.
struct Canvas {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;  ///< (height, width, 3)
};

struct Size {
  int width = 0;
  int height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};
inline Size size_of(const Canvas& canvas) { return {canvas.width, canvas.height}; }

/// Red, green, blue and what follows in its row; (x, y) lies on the canvas.
std::uint8_t* pixel(Canvas& canvas, int x, int y);

Canvas filled(int width, int height, Color color);
/// Copies all of `from` to where its corner lies at (x, y); what falls outside is left out.
void paste(Canvas& onto, const Canvas& from, int x, int y);
void fill_rectangle(Canvas& canvas, int x, int y, int width, int height, Color color);
/// The largest size of the same ratio that fits into width x height.
Size fitted_size(Size size, int width, int height);
/// Shrunk by whole-area means, or grown bilinearly, to fit into width x height; the ratio is kept.
Canvas fitted(const Canvas& canvas, int width, int height);

}  // namespace hydrascope::viz
