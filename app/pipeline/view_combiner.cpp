#include "app/pipeline/view_combiner.h"

#include <ATen/ops/empty.h>

#include <set>
#include <span>
#include <utility>

namespace hydrascope::app {

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
  for (const std::int64_t index : options_.explained_classes(views.best))
    wanted.insert(views.best.classes().at(static_cast<std::size_t>(index)).view);
  std::erase_if(views.tokens, [&](const auto& kept) { return !wanted.contains(kept.first); });
  // A copy: the tokens are a part of all its batch's.
  if (wanted.contains(number)) views.tokens.emplace(number, view.tokens.clone());
}

}  // namespace hydrascope::app
