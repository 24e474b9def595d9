// `--check-precision N`: the first N pictures once more, in float32.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/session/session.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The changes by the other precision.
struct PrecisionFindings {
  std::int64_t images = 0;
  std::int64_t flips = 0;         ///< whose most probable class is another one
  double largest_difference = 0;  ///< of a logit
  std::string where;              ///< the input that has it
  /// "precision: 100 pictures in float32, too: 1 has another top-1, logits differ by at most 0.03 (a.jpg)"
  [[nodiscard]] std::string describe() const;
};

class PrecisionCheck {
 public:
  /// None: nothing is checked.
  explicit PrecisionCheck(std::optional<std::int64_t> count) : count_(count.value_or(0)) {}

  [[nodiscard]] bool is_wanted() const noexcept { return count_ > 0; }
  /// Keeps what it needs of the run's results, which come in their order.
  void add(const PipelineResult& result);
  /// Looks at the same pictures in float32, everything else as `session` has it. Failures, and
  /// pictures that have changed into some, are left out.
  [[nodiscard]] PrecisionFindings compare(const Session& session) const;

 private:
  std::int64_t count_;
  std::vector<Input> inputs_;
  std::vector<at::Tensor> logits_;  ///< of each picture and frame; undefined for failures
};

}  // namespace hydrascope::app
