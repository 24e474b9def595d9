// The rules by which a picture leaves a network early.
#pragma once

#include "model/config/words.h"

#include <array>
#include <string_view>

namespace hydrascope::model {

/// When a picture leaves behind an exit: its score is above `exit_threshold`. p are the exit's
/// probabilities, K their number:
///   margin      largest p - second largest p (CALM's softmax response, arXiv 2207.07061)
///   entropy     1 - H(p) / ln K
///   saturation  cosine of the exit's features and the previous exit's; -1 at the first exit
///   learned     sigmoid(w . features + b), trained to say whether the last layer agrees
enum class ExitRule { margin, entropy, saturation, learned };
constexpr auto words(ExitRule) {
  return std::to_array<std::string_view>({"margin", "entropy", "saturation", "learned"});
}

}  // namespace hydrascope::model
