// Places of a picture that are worth a closer look: from the attention of one pass over all of it to boxes. Free of LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hydrascope::look {

/// A box in pixels of the pass, which may end within a pixel.
struct Area {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};
/// The intersection of two boxes over their union, 0 to 1.
double overlap(const Area& a, const Area& b);

/// A look whose box overlaps a thing's by more (intersection over union) sees the thing.
inline constexpr double kSees = 0.3;
/// Whether a look is at a thing: it sees the thing, or more than half of the look lies in the thing. A wide look that
/// merely holds a small thing is not: it may have named anything in the picture.
bool is_at(const Area& look, const Area& thing);

/// How a pass spreads the class token's attention over its patches.
struct AttentionMap {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t patch_size = 16;     ///< side of a cell in pixels
  std::vector<double> values = {};  ///< (rows, columns), none negative; their sum is 1
};

/// Sums of a map over boxes, in constant time: a summed-area table (Crow 1984).
class MapSums {
 public:
  explicit MapSums(const AttentionMap& map);
  /// The sum within a box, whose cells count by the part that lies inside; outside of the map is nothing.
  [[nodiscard]] double within(const Area& box) const;

 private:
  [[nodiscard]] double before(double x, double y) const;

  std::int64_t rows_;
  std::int64_t columns_;
  double cell_;
  std::vector<double> sums_;  // (rows + 1, columns + 1)
};

/// A part of the picture that a second model sees.
struct Look {
  Area area;
  bool of_whole = false;  ///< the central square, or all of the picture
};

struct Places {
  std::optional<Area> thing;  ///< where the map says that something is; nothing of an empty map
  /// Some 25: squares of several sides where the map is densest, and the whole.
  std::vector<Look> looks;
};

/// The places of a picture that fills `width` x `height` pixels at the top left of the map's cells.
///
/// The thing: the connected cells (4 neighbours) above a tenth of the smoothed map's peak.
///
/// Looks: for each of the sides 160, 224, 320, 448, 640, 896 and the picture's shorter edge the 3, 3, 3,
/// 2, 2, 1 and 1 boxes with the most of the map, none of which overlaps another by more than 0.3;
/// squares of the first six sides around the peak; the central square; the whole. Boxes end with the
/// picture: a side above an edge gives a rectangle.
Places find_places(const AttentionMap& map, std::int64_t width, std::int64_t height);

}  // namespace hydrascope::look
