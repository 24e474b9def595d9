#include "app/pipeline/predictions.h"

#include "app/run/console.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <set>
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

const at::Tensor& PictureViews::tokens_of_whole(const std::string& subject) const {
  if (kind.are_several)
    throw Error(ErrorCode::invalid_argument, "is of one view, the picture is several", subject);
  return tokens.at(0);
}

const FoundInViews* PictureViews::found_or_null(std::int64_t index) const {
  const auto one = std::ranges::find(found, index, &FoundInViews::index);
  return one == found.end() ? nullptr : &*one;
}

std::vector<std::int64_t> PictureViews::first_classes(std::int64_t count) const {
  std::vector<std::int64_t> classes;
  const auto add = [&](std::int64_t index) {
    if (std::ssize(classes) < count && std::ranges::find(classes, index) == classes.end())
      classes.push_back(index);
  };
  for (const FoundInViews& one : found) add(one.index);
  for (const std::int64_t index : best.first(count)) add(index);
  return classes;
}

std::optional<Box> PictureViews::box_of_class(std::int64_t index) const {
  if (places.empty()) return std::nullopt;
  if (const FoundInViews* one = found_or_null(index)) return one->place;
  const std::size_t view = best.classes().at(static_cast<std::size_t>(index)).view;
  if (closer) return closer->found_in.at(view);
  return places.at(view);
}

std::size_t PictureViews::explained_view(std::int64_t index) const {
  if (closer) return 0;
  if (const FoundInViews* one = found_or_null(index)) return one->view;
  return best.classes().at(static_cast<std::size_t>(index)).view;
}

bool FollowedFrames::follows(const PipelineResult& result) {
  const bool is_next =
      frame_ && result.frame && *result.frame > *frame_ && result.input.given == input_;
  frame_ = result.frame;
  input_ = result.input.given;
  return is_next;
}

void FrameAverage::add(PipelineResult& result) {
  if (share_ == 0 || !result.frame || result.error || result.view.count != 1) return;
  if (!frames_.follows(result)) weight_ = 0;
  const double before = share_ * weight_;
  weight_ = 1 + before;
  if (before > 0) result.logits = (result.logits + mean_ * before) / weight_;
  mean_ = result.logits;
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
    PipelineResult& picture = picture_.emplace(std::move(view));
    if (!picture.error) {
      picture.views.kind = picture.seer.transform->views;
      take(picture, picture);
    }
  }
  if (!is_last) return true;
  PipelineResult picture = std::move(*picture_);
  picture_.reset();
  if (picture.error) {
    picture.logits.reset();
    picture.views = {};
  } else {
    ++classified_;
    if (!picture.views.places.empty()) become_one(picture);
  }
  return done_(picture);
}

void ViewCombiner::become_one(PipelineResult& picture) {
  const auto& best = picture.views.best.classes();
  picture.tensor.reset();
  picture.logits = at::empty({std::ssize(best)});
  float* logits = picture.logits.mutable_data_ptr<float>();
  for (const BestViews::Best& one : best) *logits++ = static_cast<float>(one.logit);
  picture.views.found = found_in_views(probabilities_, picture.views.places);
  probabilities_.clear();
  agree_.clear();
  // All views are classified: the picture is not needed any more.
  if (options_.keep_picture) picture.pixels = std::move(*picture.view.source);
}

void ViewCombiner::take(PipelineResult& view, PipelineResult& picture) {
  PictureViews& views = picture.views;
  const std::size_t number = view.view.number;
  views.plans.push_back(view.view.plan);
  views.best.add(values_of(view.logits), number);
  const bool are_several = views.kind.are_several;
  if (are_several) {
    views.places.push_back(box_of(view.view.plan, picture.picture));
    const at::Tensor all = at::softmax(view.logits, -1);
    const std::span<const float> values = values_of(all);
    probabilities_.emplace_back(values.begin(), values.end());
  }
  const at::Tensor tokens = std::exchange(view.tokens, {});
  if (!tokens.defined()) return;
  if (!are_several) {
    views.tokens.emplace(number, tokens);
    return;
  }
  if (!options_.explained_classes) return;
  const std::set<std::size_t> wanted = explained_views(picture);
  std::erase_if(views.tokens, [&](const auto& kept) { return !wanted.contains(kept.first); });
  // A copy: the tokens are a part of all its batch's.
  if (wanted.contains(number)) views.tokens.emplace(number, tokens.clone());
}

std::set<std::size_t> ViewCombiner::explained_views(const PipelineResult& picture) {
  const PictureViews& views = picture.views;
  std::set<std::size_t> wanted;
  for (const std::int64_t index : options_.explained_classes(picture.input, views.best))
    wanted.insert(views.best.classes().at(static_cast<std::size_t>(index)).view);
  const std::size_t newest = views.places.size() - 1;
  if (newest == 0 || views.places[newest].top != views.places[newest - 1].top)
    agree_ = views_that_agree(probabilities_, views.places);
  for (std::size_t view = 0; view <= newest; ++view) {
    if (!(std::ranges::max(probabilities_[view]) >= kLeastAgreement * kLeastAgreement)) continue;
    // Tiles come row by row; tiles of another scale come later.
    const Box& place = views.places[view];
    const bool may_agree =
        views.kind != image::Views::tiles || views.places[newest].top < place.top + place.height;
    if (may_agree || (view < agree_.size() && agree_[view])) wanted.insert(view);
  }
  return wanted;
}

void add_result(InputRecord& record, const PipelineResult& result, const image::Labels& labels) {
  record.input = result.input.given;
  record.frame = result.frame;
  record.time = result.time;
  record.error = result.error;
  record.message = spelled(result.message);
  record.width = result.picture.width;
  record.height = result.picture.height;
  record.model_size = {result.model_size.height, result.model_size.width};
  record.num_views = std::ssize(result.views.plans);
  if (!result.views.places.empty()) record.views = result.views.kind;
  if (result.seer.is_of_small) {
    record.views = image::Views::whole;
    if (!result.error) record.seen = box_of(result.views.plans.front(), result.picture);
  }
  record.note = result.note;
  record.seconds = result.seconds;
  // Views and looks of one picture share batches with themselves.
  if (result.views.places.empty() && !result.views.closer) record.batch_size = result.batch_size;
  if (!result.views.closer) return;
  const auto found = [&](const CloserLooks::Place& place) {
    const image::Label& label = labels.at(place.index);
    return Prediction{.index = place.index,
                      .id = label.id,
                      .label = label.short_name,
                      .prob = place.probability,
                      .box = place.box};
  };
  for (const CloserLooks::Place& look : result.views.closer->looks)
    record.looks.push_back({found(look), look.weight});
  for (const CloserLooks::Place& thing : result.views.closer->things)
    record.things.push_back(found(thing));
  record.num_views += std::ssize(record.looks);
}

namespace {

/// A class, as tiles agree on it or with its best view's probability, logit and place.
Prediction prediction(std::int64_t rank, std::int64_t index, const PipelineResult& result,
                      const image::Labels& labels, const FoundInViews* found) {
  const BestViews::Best& best = result.views.best.classes().at(static_cast<std::size_t>(index));
  const image::Label& label = labels.at(index);
  Prediction one{static_cast<int>(rank),
                 index,
                 label.id,
                 label.short_name,
                 best.probability,
                 best.logit,
                 result.views.box_of_class(index)};
  if (found != nullptr) {
    one.prob = found->probability;
    one.box = found->place;
    one.support = found->support;
  }
  return one;
}

}  // namespace

std::vector<Prediction> top_classes(const PipelineResult& result, std::int64_t count,
                                    const image::Labels& labels) {
  std::vector<Prediction> top;
  const PictureViews& views = result.views;
  for (const FoundInViews& one : views.found)
    if (std::ssize(top) < count)
      top.push_back(prediction(std::ssize(top) + 1, one.index, result, labels, &one));
  if (!views.found.empty()) return top;
  const std::int64_t shown = views.kind.are_several ? std::min<std::int64_t>(count, 1) : count;
  for (const std::int64_t index : views.best.first(shown))
    top.push_back(prediction(std::ssize(top) + 1, index, result, labels, nullptr));
  return top;
}

std::vector<Prediction> chosen_classes(const PipelineResult& result,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels) {
  std::vector<Prediction> chosen;
  for (const std::int64_t index : indices)
    chosen.push_back(prediction(result.views.best.rank(index), index, result, labels,
                                result.views.found_or_null(index)));
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
