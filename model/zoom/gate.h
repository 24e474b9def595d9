// One answer from many views: a mixture of their distributions, with weights that a linear gate gives. Free of LibTorch.
#pragma once

#include "model/zoom/views.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hydrascope::zoom {

/// The views' opinion together.
struct Mixture {
  std::vector<double> weights;  ///< of the views; their sum is 1
  std::vector<std::vector<double>>
      distributions;                  ///< of each view, over the classes: softmax of logits / 0.6
  std::vector<double> probabilities;  ///< over the classes; their sum is 1
};

/// Brings `count` views to the front: those of the whole, and those that the gate's terms of the map make likeliest.
/// Both parts keep their order.
void bring_forward(const AttentionMap& map, std::int64_t width, std::int64_t height,
                   std::vector<View>& views, std::size_t count);

/// p = sum_i w_i softmax(logits_i / T), w = softmax over views of theta . f_i (Jacobs et al. 1991, Adaptive
/// Mixtures of Local Experts). The features f_i are of the view's logits, of its box, of the map in and around it
/// and of the other views. docs/notes/zoom.md says how theta was learned.
///
/// `logits` has a row a view; all have the same classes. The picture fills `width` x `height` pixels of the map.
Mixture mix(const AttentionMap& map, std::int64_t width, std::int64_t height,
            std::span<const View> views, std::span<const std::span<const float>> logits);

struct Point {
  double x = 0;
  double y = 0;
};
/// The point where most votes lie over each other: each view spreads its vote (not negative) evenly over its area.
/// The middle of the densest rectangle that the views' edges make; nothing where no vote is above 0.
std::optional<Point> densest_point(std::span<const Area> areas, std::span<const double> votes);

}  // namespace hydrascope::zoom
