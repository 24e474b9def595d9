#include "app/session/precision_check.h"

#include "app/pipeline/predictions.h"
#include "app/results/format.h"
#include "app/results/json.h"
#include "app/run/terminal_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace hydrascope::app {
std::string PrecisionFindings::describe() const {
  return "precision: " + std::to_string(images) +
         " pictures in float32, too: " + std::to_string(flips) + (flips == 1 ? " has" : " have") +
         " another top-1, logits differ by at most " + significant(largest_difference, 3) +
         (where.empty() ? "" : " (" + printable(where) + ")");
}

void PrecisionCheck::add(const PipelineResult& result) {
  if (std::ssize(logits_) >= count_) return;
  if (result.frame.value_or(0) == 0) inputs_.push_back(result.input);
  // It would keep all of its batch.
  logits_.push_back(result.error ? at::Tensor() : result.logits.clone());
}

PrecisionFindings PrecisionCheck::compare(const Session& session) const {
  const std::unique_ptr<Session> other = session.in_precision("float32");
  other->load();
  PrecisionFindings findings;
  std::size_t done = 0;
  other->run(one_by_one(inputs_), [&](const PipelineResult& result) {
    if (done == logits_.size()) return false;
    const at::Tensor& before = logits_[done++];
    if (!before.defined() || result.error) return true;
    const std::span<const float> one = values_of(before);
    const std::span<const float> exact = values_of(result.logits);
    ++findings.images;
    if (std::ranges::max_element(one) - one.begin() !=
        std::ranges::max_element(exact) - exact.begin())
      ++findings.flips;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double difference = std::abs(static_cast<double>(one[i]) - exact[i]);
      if (difference <= findings.largest_difference) continue;
      findings.largest_difference = difference;
      findings.where = result.input.given;
    }
    return true;
  });
  return findings;
}

}  // namespace hydrascope::app
