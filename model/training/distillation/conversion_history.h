// The events of a conversion, for its report and for a resumed run. Free of LibTorch.
#pragma once

#include "model/training/options.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model::training {

/// Measures on the held-out images: of logits the first two, of features the others.
struct Agreement {
  double top1 = 0;        ///< images with the same class from both, in percent
  double divergence = 0;  ///< mean KL of the student's probabilities from the teacher's, nats
  Target target = Target::logits;
  double pooled_cosine = 0;  ///< mean cosine of the pooled vectors
  double patch_cosine = 0;   ///< mean cosine of the patch tokens

  /// The number that decides: the divergence, because the share of equal classes among some hundred
  /// images has a standard error of two points, more than two late looks differ by; of features 1
  /// minus the mean of both cosines.
  [[nodiscard]] double distance() const {
    return target == Target::logits ? divergence : 1 - (pooled_cosine + patch_cosine) / 2;
  }
  /// A number is better than none.
  [[nodiscard]] bool is_better_than(const Agreement& other) const {
    return distance() < other.distance() ||
           (std::isfinite(distance()) && !std::isfinite(other.distance()));
  }
};

/// One look at the held-out images. Before any training the stage is "start", after the start of
/// Hydra layers "hydra start".
struct Evaluation {
  std::string stage;
  std::int64_t step = 0;  ///< counted in the stage
  double seconds = 0;     ///< since the beginning, over all sessions
  Agreement agreement;
};

struct StageSummary {
  std::string stage;
  std::int64_t planned_steps = 0;
  std::int64_t steps = 0;   ///< done
  std::int64_t images = 0;  ///< shown; with several sizes, parts of views
  double seconds = 0;       ///< training alone
  bool ended_early = false;
  /// Pictures of a step, by all processes, where a limit of time chose `planned_steps`; else 0.
  std::int64_t pictures_of_a_step = 0;
};

/// Relative squared error of a layer's attention output, on the teacher's tokens.
struct LayerFidelity {
  std::int64_t layer = 0;
  std::string mechanism;
  double before = 0;
  double after = 0;
};

struct ConversionHistory {
  std::vector<Evaluation> evaluations;
  std::vector<StageSummary> stages;
  std::vector<LayerFidelity> layers;
  std::int64_t best = 0;  ///< position in `evaluations`
  double seconds = 0;     ///< over all sessions
  std::int64_t held_out_images = 0;
  bool is_complete = false;  ///< false: stopped, by a signal, by the time limit or by `failure`
  std::string failure;       ///< why training could not go on, else ""

  [[nodiscard]] const Evaluation& start() const { return evaluations.front(); }
  [[nodiscard]] const Evaluation& best_evaluation() const {
    return evaluations[static_cast<std::size_t>(best)];
  }
};

/// One line of JSON, and back; throws Error(decode_failed).
std::string to_json(const ConversionHistory& history);
ConversionHistory history_from_json(std::string_view json, const std::string& subject);

}  // namespace hydrascope::model::training
