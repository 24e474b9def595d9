// Parts of a picture that are worth a view: from the attention of one pass over all of it to boxes. Free of LibTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace hydrascope::zoom {

/// A box, which may end within a pixel. The shorter edge of a picture has some 1088 pixels here, whatever it is.
struct Area {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};
/// The intersection of two boxes over their union, 0 to 1.
double overlap(const Area& a, const Area& b);

/// How a pass spreads the class token's attention over its patches.
struct AttentionMap {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t patch_size = 16;     ///< side of a cell in these pixels
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

/// A part of the picture that is seen on its own.
struct View {
  Area area;
  bool of_whole = false;  ///< the central square, or all of the picture
};

/// Some 25 views of a picture that fills `width` x `height` pixels at the top left of the map's cells; the last is
/// the whole.
///
/// For each of the sides 160, 224, 320, 448, 640, 896 and the picture's shorter edge the 3, 3, 3, 2, 2, 1 and 1 boxes
/// with the most of the map, none of which overlaps another by more than 0.3 (intersection over union); squares of the
/// first six sides around the smoothed map's peak; the central square; the whole. Boxes end with the picture: a side
/// above an edge gives a rectangle.
std::vector<View> find_views(const AttentionMap& map, std::int64_t width, std::int64_t height);

}  // namespace hydrascope::zoom
