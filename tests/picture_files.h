// Small encoded pictures for tests, made in memory: a binary PPM needs no encoder.
#pragma once

#include <cstdint>
#include <string>

namespace hydrascope::testing {

/// A gradient whose colours depend on `seed`.
inline std::string ppm(int width, int height, unsigned seed = 0) {
  std::string bytes = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      bytes += static_cast<char>((static_cast<unsigned>(x) * 5 + seed) & 255U);
      bytes += static_cast<char>((static_cast<unsigned>(y) * 3 + seed * 7) & 255U);
      bytes += static_cast<char>((static_cast<unsigned>(x + y) + seed * 31) & 255U);
    }
  }
  return bytes;
}

}  // namespace hydrascope::testing
