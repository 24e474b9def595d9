// The place of a model's grid of patches on the picture that it was made from: the evaluation
// transform, backwards. Along each edge the picture is resized, a window of it is cut (or the
// picture is centred in a larger window), and the window is padded at its end to whole patches.
#pragma once

#include <cstdint>

namespace hydrascope::viz {

/// Along one edge, all in pixels. Pixel centres lie at half integers: picture coordinate p is
/// p * resized / picture - window_start in the model's input, which cells divide evenly.
struct Axis {
  std::int64_t picture = 0;  ///< of the picture, after EXIF orientation
  std::int64_t resized = 0;
  std::int64_t window_start = 0;  ///< in the resized picture; negative where that is smaller
  std::int64_t window = 0;        ///< what of the model's input comes from the window
  std::int64_t output = 0;        ///< the model's input; after `window` it is padding
  std::int64_t cells = 0;         ///< patches along it

  /// The picture as it is, divided into `cells`.
  static Axis whole(std::int64_t picture, std::int64_t cells) {
    return {picture, picture, 0, picture, picture, cells};
  }
};

struct Placement {
  Axis vertical;
  Axis horizontal;
};

/// The half-open range of picture pixels, by their centres, that the model saw.
struct SeenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
SeenRange seen(const Axis& axis);

}  // namespace hydrascope::viz
