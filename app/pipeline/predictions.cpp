#include "app/pipeline/predictions.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace hydrascope::app {

void require_finite_logits(PipelineResult& result) {
  for (const auto& [what, tensor] :
       {std::pair{"logits", &result.logits}, {"features", &result.features}}) {
    if (!tensor->defined()) continue;
    const std::span<const float> values = values_of(*tensor);
    const auto bad =
        std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    if (bad == 0) continue;
    result.error = ErrorCode::failed;
    result.message =
        std::to_string(bad) + " of " + std::to_string(values.size()) + " " + what +
        " are NaN or infinite; `hydrascope models info FILE --verify` looks for the same in "
        "the weights";
    result.logits.reset();
    result.features.reset();
    return;
  }
}

bool FollowedFrames::follows(const PipelineResult& result) {
  const bool is_next =
      frame_ && result.frame && *result.frame > *frame_ && result.input.given == input_;
  frame_ = result.frame;
  input_ = result.input.given;
  return is_next;
}

void FrameAverage::add(PipelineResult& result) {
  if (share_ == 0 || !result.frame || result.error) return;
  if (!frames_.follows(result)) weight_ = 0;
  const double before = share_ * weight_;
  weight_ = 1 + before;
  if (before > 0) result.logits = (result.logits + mean_ * before) / weight_;
  mean_ = result.logits;
}

void finish_result(PipelineResult& result) {
  if (result.error) {
    result.logits.reset();
    result.tokens.reset();
    result.scores = {};
  } else {
    result.scores = ClassScores(values_of(result.logits));
  }
}

namespace {

Prediction prediction(std::int64_t rank, std::int64_t index, const PipelineResult& result,
                      const image::Labels& labels) {
  const ClassScores::Score& score = result.scores.classes().at(static_cast<std::size_t>(index));
  const image::Label& label = labels.at(index);
  return {static_cast<int>(rank),
          index,
          label.id,
          label.short_name,
          score.probability,
          score.logit,
          result.closer ? result.closer->found_in.at(score.look) : std::nullopt};
}

}  // namespace

std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels) {
  std::vector<Prediction> top;
  for (const std::int64_t index : result.scores.first(count))
    top.push_back(prediction(std::ssize(top) + 1, index, result, labels));
  return top;
}

std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels) {
  std::vector<Prediction> chosen;
  for (const std::int64_t index : indices)
    chosen.push_back(prediction(result.scores.rank(index), index, result, labels));
  return chosen;
}

viz::Placement placement_of(const image::TransformPlan& plan, image::Size picture,
                            std::int64_t patch_size) {
  return {{picture.height, plan.resized.height, plan.window_top, plan.cropped.height,
           plan.output.height, plan.output.height / patch_size},
          {picture.width, plan.resized.width, plan.window_left, plan.cropped.width,
           plan.output.width, plan.output.width / patch_size}};
}

Box box_of(const image::TransformPlan& plan, image::Size picture) {
  const viz::Placement placement = placement_of(plan, picture, /*patch_size=*/1);
  const viz::SeenRange rows = viz::seen(placement.vertical);
  const viz::SeenRange columns = viz::seen(placement.horizontal);
  return {columns.begin, rows.begin, columns.end - columns.begin, rows.end - rows.begin};
}

}  // namespace hydrascope::app
