// One answer from many looks: a mixture of their distributions, with weights that a linear gate gives. Free of LibTorch.
#pragma once

#include "model/look/places.h"

#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::look {

/// The looks' opinion together.
struct Mixture {
  std::vector<double> weights;  ///< of the looks; their sum is 1
  std::vector<std::vector<double>>
      distributions;                  ///< of each look, over the classes: softmax of logits / 0.6
  std::vector<double> probabilities;  ///< over the classes; their sum is 1

  /// The mixture of the looks of `some` alone, by their weights; empty of none.
  [[nodiscard]] std::vector<double> of(std::span<const std::size_t> some) const;
};

/// Brings `count` looks to the front: those at the whole, and those that the gate's terms of the map make likeliest.
/// Both parts keep their order.
void bring_forward(const AttentionMap& map, std::int64_t width, std::int64_t height,
                   std::vector<Look>& looks, std::size_t count);

/// p = sum_i w_i softmax(logits_i / T), w = softmax over looks of theta . f_i (Jacobs et al. 1991, Adaptive
/// Mixtures of Local Experts). The features f_i are of the look's logits, of its box, of the map in and around it,
/// of the other looks' and of the pass's opinion. docs/notes/look.md says how theta was learned.
///
/// `logits` has a row a look, `of_pass` is the native pass's; all have the same classes. The picture fills `width` x
/// `height` pixels of the map.
Mixture mix(const AttentionMap& map, std::int64_t width, std::int64_t height,
            std::span<const Look> looks, std::span<const std::span<const float>> logits,
            std::span<const float> of_pass);

/// The looks' probabilities, or their mean with the pass's (softmax of its logits) where the pass gives its first class
/// more than the looks together give theirs. A thing that fills the picture is best seen whole, and looks at its details
/// mislead; of a small thing the pass is unsure. Their sum is 1.
std::vector<double> heard_with(std::span<const float> of_pass, std::span<const double> of_looks);

}  // namespace hydrascope::look
