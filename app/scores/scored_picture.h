// What the scores of a labelled set need of one picture: a few numbers instead of its logits, which
// processes can exchange.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/pipeline/best_views.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hydrascope::app {

/// The k of "top-k accuracy".
constexpr std::int64_t kTopClasses = 5;

struct ScoredPicture {
  std::size_t index = 0;  ///< in the set
  std::int64_t target = kNoClass;
  std::int64_t predicted = 0;
  double confidence = 0;  ///< probability of the predicted class
  // Only labelled pictures have these.
  std::int64_t rank = 0;          ///< of the target, from 1; ties go to the lower class
  double target_probability = 0;  ///< softmax over all classes
  double log_loss = 0;            ///< -ln of it; this and the next NaN of several views
  double brier = 0;               ///< sum over the classes of (probability - [is the target])^2

  [[nodiscard]] bool is_labelled() const noexcept { return target != kNoClass; }
  [[nodiscard]] bool is_right() const noexcept { return is_labelled() && rank == 1; }
};

/// `target` is a class of the logits, or kNoClass.
ScoredPicture score_picture(std::span<const float> logits, std::int64_t target, std::size_t index);
/// The same of a picture in several views, whose probabilities are no distribution: there is a
/// confidence, but no loss.
ScoredPicture score_picture(const BestViews& views, std::int64_t target, std::size_t index);

}  // namespace hydrascope::app
