// How sure an exit is of its answer.
#pragma once

#include "model/config/exit_rule.h"

#include <span>

namespace hydrascope::model::inference {

/// An exit's findings about one image; spans that the rule does not read may be empty.
struct ExitFindings {
  std::span<const float> logits = {};
  std::span<const float> features = {};  ///< the classifier's input
  std::span<const float> previous = {};  ///< the features at the exit before; empty at the first
  float stop = 0;                        ///< w . features + b
};

/// The score that the threshold is compared with, at most 1 (ExitRule says which); NaN for logits that
/// are not finite, which is above no threshold.
float exit_score(ExitRule rule, const ExitFindings& found);

}  // namespace hydrascope::model::inference
