#include "app/pipeline/predictions.h"

#include "model/zoom/gate.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <optional>
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

double area_of(const Box& box) {
  return static_cast<double>(box.width) * static_cast<double>(box.height);
}

/// The part of `box` that lies in `other`; without area where none does.
Box shared_box(const Box& box, const Box& other) {
  const std::int64_t left = std::max(box.left, other.left);
  const std::int64_t top = std::max(box.top, other.top);
  const std::int64_t right = std::min(box.left + box.width, other.left + other.width);
  const std::int64_t bottom = std::min(box.top + box.height, other.top + other.height);
  return {left, top, std::max<std::int64_t>(right - left, 0),
          std::max<std::int64_t>(bottom - top, 0)};
}

/// Fills in the place of a class: the view that says most of it, and the point in it where the views' evidence is
/// densest. A view of most of the picture is no place, and neither is a small one that the views around it contradict.
void add_place(Prediction& prediction, const PipelineResult& result) {
  constexpr double kLeast = 0.05;  // the probability of a class that is somewhere
  constexpr double kWhole = 0.8;   // of the picture
  constexpr double kSmall = 0.05;  // of it
  if (!(prediction.prob >= kLeast)) return;
  const auto index = static_cast<std::size_t>(prediction.index);
  const auto said = [&](const SeenView& view) {
    return view.weight * view.probabilities.at(index);
  };
  const SeenView& best = *std::ranges::max_element(result.views, {}, said);
  const Box picture{0, 0, result.picture.width, result.picture.height};
  if (area_of(best.box) > kWhole * area_of(picture)) return;
  const auto agrees = [&](const SeenView& view) {
    return area_of(view.box) > area_of(best.box) && shared_box(best.box, view.box) == best.box &&
           std::ranges::max_element(view.probabilities) - view.probabilities.begin() ==
               prediction.index;
  };
  if (area_of(best.box) < kSmall * area_of(picture) && std::ranges::none_of(result.views, agrees))
    return;
  std::vector<zoom::Area> areas;
  std::vector<double> votes;
  for (const SeenView& view : result.views) {
    const Box shared = shared_box(best.box, view.box);
    if (area_of(shared) == 0) continue;
    areas.push_back({static_cast<double>(shared.left), static_cast<double>(shared.top),
                     static_cast<double>(shared.width), static_cast<double>(shared.height)});
    votes.push_back(said(view) * area_of(shared) / area_of(view.box));
  }
  const std::optional<zoom::Point> mark = zoom::densest_point(areas, votes);
  if (!mark) return;
  prediction.box = best.box;
  prediction.mark = {static_cast<std::int64_t>(mark->x), static_cast<std::int64_t>(mark->y)};
}

Prediction prediction(std::int64_t rank, std::int64_t index, const PipelineResult& result,
                      const image::Labels& labels) {
  const ClassScores::Score& score = result.scores.classes().at(static_cast<std::size_t>(index));
  const image::Label& label = labels.at(index);
  Prediction one{static_cast<int>(rank), index,      label.id, label.short_name,
                 score.probability,      score.logit};
  if (!result.views.empty()) add_place(one, result);
  return one;
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
