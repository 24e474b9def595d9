// Products of few rows on many threads: not only the rows are cut, but also the outputs, so that every
// thread has work and a weight is read by few of them.
#pragma once

#include "kernels/linear/panel.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// Rows of a product that one thread computes at most: the room in its scratch.
inline constexpr std::int64_t kMostPartRows = 132;

/// A product of rows x panels as a grid of like parts.
class ProductCut {
 public:
  struct Part {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t first_panel = 0;
    std::int64_t panels = 0;
    /// As outputs of a product whose first panel is number `before`.
    [[nodiscard]] kernels::linear::Outputs outputs(std::int64_t before = 0) const;
  };

  ProductCut() = default;
  /// The grid whose parts `threads` threads have done soonest. Parts are as many rows and panels each as
  /// their number allows, rows a multiple of `unit`; a part takes the time of its rows, and of some
  /// more for the weights that it reads.
  ProductCut(std::int64_t rows, std::int64_t panels, int threads, std::int64_t unit);

  [[nodiscard]] std::int64_t count() const { return row_parts_ * panel_parts_; }
  /// Parts of the same panels follow each other: neighbouring threads read the same weights.
  [[nodiscard]] Part part(std::int64_t index) const;
  /// Rows times panels until the last thread has done its parts.
  [[nodiscard]] double time() const { return time_; }
  /// The number of threads that read a weight.
  [[nodiscard]] std::int64_t row_parts() const { return row_parts_; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t panels_ = 0;
  std::int64_t unit_ = 1;
  std::int64_t row_parts_ = 0;
  std::int64_t panel_parts_ = 0;
  double time_ = 0;
};

/// Rows times panels, as deep as the network is wide, until the last thread has done a network's products:
/// one tile after the other through whole blocks, and cut by outputs.
struct CutTimes {
  double by_tiles = 0;
  double by_outputs = 0;
  /// A block's products; `panels[i]` outputs of `depths[i]` inputs each. `of_tiles`: rows of a thread's tiles, and
  /// some more for the weights that it reads. `cut`: the time of so many panels that are cut.
  template <class Products, class Cut>
  void add_block(const Products& products, std::int64_t dim, double of_tiles, const Cut& cut) {
    // A meeting of the threads takes some microseconds, in these units:
    const double meeting = 8.0 * 768 / static_cast<double>(dim);
    constexpr int kMeetings = 6;
    for (const auto& [panels, depth] : products) {
      const double of_depth = static_cast<double>(depth) / static_cast<double>(dim);
      by_tiles += of_tiles * static_cast<double>(panels) * of_depth;
      by_outputs += cut(panels) * of_depth;
    }
    by_tiles += meeting;
    by_outputs += kMeetings * meeting;
  }
  /// Whether cutting pays: rows change cores, which is not counted.
  [[nodiscard]] bool is_sooner_cut() const { return by_outputs < 0.9 * by_tiles; }
};

/// Heads in neighbouring groups, a group of each of `tiles` tiles an item: the number of groups whose items
/// `threads` threads have done soonest, few if that is the same.
std::int64_t head_groups(std::int64_t tiles, std::int64_t heads, int threads);

}  // namespace hydrascope::model::inference
