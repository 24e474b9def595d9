#include "app/model/precision_check.h"

#include "app/results/format.h"
#include "app/results/json.h"
#include "app/run/terminal_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace hydrascope::app {
namespace {

std::span<const float> values_of(const at::Tensor& logits) {
  return {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())};
}

}  // namespace

std::string PrecisionFindings::describe() const {
  return "precision: " + std::to_string(images) +
         " pictures in float32, too: " + std::to_string(flips) + (flips == 1 ? " has" : " have") +
         " another top-1, logits differ by at most " + significant(largest_difference, 3) +
         (where.empty() ? "" : " (" + printable(where) + ")");
}

void PrecisionCheck::add(const PipelineResult& result) {
  if (std::ssize(logits_) >= count_) return;
  if (result.frame.value_or(0) == 0) inputs_.push_back(result.input);
  // Of its batch it would keep all.
  logits_.push_back(result.error ? at::Tensor() : result.logits.clone());
}

PrecisionFindings PrecisionCheck::compare(RunRequest run, const ModelSource& source,
                                          const image::TransformConfig& transform,
                                          std::int64_t video_stride, const Console& console) const {
  run.precision = "float32";
  run.calibration.clear();
  model::Classifier classifier = make_classifier(run, source, transform, console.errors_only());
  PipelineOptions pipeline = pipeline_options(run, transform);
  pipeline.keep_input = false;
  pipeline.video_stride = video_stride;
  PrecisionFindings findings;
  std::size_t next = 0;
  std::size_t done = 0;
  const auto next_input = [&]() -> std::optional<Input> {
    if (next == inputs_.size()) return std::nullopt;
    return inputs_[next++];
  };
  run_pipeline(next_input, classifier.engine(), pipeline, [&](const PipelineResult& result) {
    if (done == logits_.size()) return false;
    const at::Tensor& before = logits_[done++];
    if (!before.defined() || result.error) return true;
    const std::span<const float> one = values_of(before);
    const std::span<const float> other = values_of(result.logits);
    ++findings.images;
    if (std::ranges::max_element(one) - one.begin() !=
        std::ranges::max_element(other) - other.begin())
      ++findings.flips;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const double difference = std::abs(static_cast<double>(one[i]) - other[i]);
      if (difference <= findings.largest_difference) continue;
      findings.largest_difference = difference;
      findings.where = result.input.given;
    }
    return true;
  });
  return findings;
}

}  // namespace hydrascope::app
