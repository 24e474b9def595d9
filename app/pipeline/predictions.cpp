#include "app/pipeline/predictions.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace hydrascope::app {

void require_finite_logits(PipelineResult& result) {
  const std::span<const float> logits(result.logits.const_data_ptr<float>(),
                                      static_cast<std::size_t>(result.logits.numel()));
  const auto bad = std::ranges::count_if(logits, [](float logit) { return !std::isfinite(logit); });
  if (bad == 0) return;
  result.error = ErrorCode::failed;
  result.message = std::to_string(bad) + " of " + std::to_string(logits.size()) +
                   " logits are NaN or infinite; `hydrascope inspect --verify` looks for the same "
                   "in the weights";
  result.logits.reset();
}

bool ViewCombiner::add(PipelineResult& view) {
  const bool is_last = view.view.number + 1 == view.view.count;
  if (picture_) {
    picture_->seconds += view.seconds;
    if (view.error && !picture_->error) {
      picture_->error = view.error;
      picture_->message = view.message;
    }
    if (!picture_->error) take(view, *picture_);
  } else {
    PipelineResult& picture = picture_.emplace(view);
    picture.tensor.reset();
    picture.tokens.reset();
    picture.views.emplace();
    if (!picture.error) take(view, picture);
  }
  if (!is_last) return true;
  PipelineResult picture = std::move(*picture_);
  picture_.reset();
  if (picture.error) {
    picture.logits.reset();
    picture.views.reset();
  } else {
    ++classified_;
    const auto& best = picture.views->best.classes();
    picture.logits = at::empty({std::ssize(best)});
    float* logits = picture.logits.mutable_data_ptr<float>();
    for (const BestViews::Best& one : best) *logits++ = static_cast<float>(one.logit);
    // All views are classified: nobody reads the picture any more.
    if (options_.keep_picture) picture.pixels = std::move(*view.view.source);
  }
  return done_(picture);
}

void ViewCombiner::take(PipelineResult& view, PipelineResult& picture) {
  PictureInViews& views = *picture.views;
  const std::size_t number = view.view.number;
  views.plans.push_back(view.view.plan);
  views.best.add(
      {view.logits.const_data_ptr<float>(), static_cast<std::size_t>(view.logits.numel())}, number);
  if (!view.tokens.defined() || !options_.explained_classes) return;
  std::set<std::size_t> wanted;
  for (const std::int64_t index : options_.explained_classes(picture.input, views.best))
    wanted.insert(views.best.classes().at(static_cast<std::size_t>(index)).view);
  std::erase_if(views.tokens, [&](const auto& kept) { return !wanted.contains(kept.first); });
  // A copy: the tokens are a part of all its batch's.
  if (wanted.contains(number)) views.tokens.emplace(number, view.tokens.clone());
}

namespace {

Prediction prediction(std::int64_t rank, std::int64_t index, double probability, double logit,
                      const image::Labels& labels) {
  const image::Label& label = labels.at(index);
  return {static_cast<int>(rank), index, label.id, label.short_name, probability, logit};
}

Prediction prediction(std::int64_t rank, std::int64_t index, const at::Tensor& probabilities,
                      const at::Tensor& logits, const image::Labels& labels) {
  return prediction(rank, index, probabilities[index].item<double>(), logits[index].item<double>(),
                    labels);
}

Prediction found_class(std::int64_t rank, std::int64_t index, const PipelineResult& result,
                       const image::Labels& labels) {
  const BestViews::Best& best = result.views->best.classes().at(static_cast<std::size_t>(index));
  Prediction one = prediction(rank, index, best.probability, best.logit, labels);
  one.box = box_of(result.views->plans.at(best.view), result.picture);
  return one;
}

}  // namespace

std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels) {
  std::vector<Prediction> top;
  if (result.views) {
    for (const std::int64_t index : result.views->best.first(count))
      top.push_back(found_class(std::ssize(top) + 1, index, result, labels));
    return top;
  }
  const at::Tensor& logits = result.logits;
  const at::Tensor probabilities = at::softmax(logits.to(at::kDouble), -1);
  const at::Tensor indices = std::get<1>(at::topk(probabilities, std::min(count, logits.size(-1))));
  for (std::int64_t rank = 0; rank < indices.size(0); ++rank)
    top.push_back(
        prediction(rank + 1, indices[rank].item<std::int64_t>(), probabilities, logits, labels));
  return top;
}

std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels) {
  std::vector<Prediction> chosen;
  if (result.views) {
    for (const std::int64_t index : indices)
      chosen.push_back(found_class(result.views->best.rank(index), index, result, labels));
    return chosen;
  }
  const at::Tensor probabilities = at::softmax(result.logits.to(at::kDouble), -1);
  for (const std::int64_t index : indices) {
    const auto better = probabilities.gt(probabilities[index]).sum().item<std::int64_t>();
    chosen.push_back(prediction(better + 1, index, probabilities, result.logits, labels));
  }
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
