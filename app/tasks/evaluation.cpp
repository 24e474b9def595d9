#include "app/tasks/evaluation.h"

#include "app/pipeline/predictions.h"
#include "app/run/console.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

namespace {

/// The other model's logits (num_classes) of each picture, undefined where there are none; fewer than
/// pictures after a stop.
std::vector<at::Tensor> logits_of(Session& session, std::span<const LabelledPicture> pictures) {
  std::vector<Input> inputs;
  for (const LabelledPicture& picture : pictures) inputs.push_back(input_of(picture));
  std::vector<at::Tensor> logits;
  session.run(one_by_one(std::move(inputs)), [&](const PipelineResult& result) {
    logits.push_back(result.logits);
    return true;
  });
  return logits;
}

}  // namespace

Evaluation::Evaluation(const ScoreRequest& wanted, const SetJobs& jobs, const LabelledSet& set,
                       Session& session, FaithfulnessRun* faithfulness, Session* reference)
    : set_(set),
      session_(session),
      faithfulness_(faithfulness),
      reference_(reference),
      progress_(jobs.command, std::ssize(set.pictures), session.console().progress),
      scores_(set) {
  // Maps take far more of the work than the first pass.
  const double share = faithfulness != nullptr ? 0 : reference != nullptr ? 0.5 : 1;
  session.hide_for_notes(progress_, share);
  if (reference != nullptr) reference->hide_for_notes(progress_, share);
  if (!wanted.save_logits.empty()) logits_.emplace(wanted.save_logits);
}

void Evaluation::run() {
  if (faithfulness_ != nullptr) {
    run_in_parts(faithfulness_->pictures_at_once());
  } else if (reference_ != nullptr) {
    constexpr std::size_t kEnough = 1024;
    run_in_parts(kEnough);
  } else {
    classify_until(set_.pictures.size(),
                   [&](const PipelineResult& result) { return add(result, {}); });
  }
  progress_.finish();
  if (logits_) logits_->close();
}

void Evaluation::classify_until(std::size_t end, const std::function<bool(PipelineResult&)>& done) {
  const auto next_input = [&]() -> std::optional<Input> {
    if (next_ == end) return std::nullopt;
    return input_of(set_.pictures[next_++]);
  };
  timing_ += session_.run(next_input, done);
}

void Evaluation::run_in_parts(std::size_t at_once) {
  const std::size_t all = set_.pictures.size();
  for (bool go_on = true; go_on && next_ < all && !stop_requested();) {
    const std::size_t begin = next_;
    std::vector<PipelineResult> results;
    classify_until(std::min(begin + at_once, all), [&](PipelineResult& result) {
      results.push_back(std::move(result));
      return true;
    });
    std::vector<at::Tensor> others(results.size());
    if (reference_ != nullptr)
      others = logits_of(*reference_, std::span(set_.pictures).subspan(begin, results.size()));
    for (std::size_t i = 0; go_on && i < others.size(); ++i) {
      const PipelineResult& result = results[i];
      go_on = faithfulness_ == nullptr || result.error.has_value() ||
              faithfulness_->add(result, reported_);
      if (go_on) go_on = add(result, others[i]);
    }
  }
}

void Evaluation::add_exit(const PictureExit& exit, std::int64_t class_index) {
  if (exit.layer) ++exit_layers_[*exit.layer];
  if (exit.watched.empty()) return;
  ExitTrial& trial = trials_.emplace_back();
  for (const PictureExit::Watched& found : exit.watched)
    trial.exits.push_back({found.score, found.class_index == class_index});
}

bool Evaluation::add(const PipelineResult& result, const at::Tensor& reference) {
  const std::size_t index = reported_++;
  if (result.error) {
    scores_.add_failure();
    progress_.hide();
    print_failure(Error(*result.error, result.message, result.input.given),
                  spelled("error: " + printable(result.input.given) + ": " +
                          std::string(name(*result.error)) + ": " + printable(result.message)));
    if (logits_) logits_->append_nan();
  } else {
    const std::span<const float> logits = values_of(result.logits);
    const std::int64_t target = set_.pictures[index].target;
    const ScoredPicture picture = score_picture(logits, target, index);
    scores_.add(picture);
    errors_.add(picture);
    if (reference.defined()) scores_.add_reference(picture, logits, values_of(reference));
    if (logits_) logits_->append(logits, result.logits.sizes());
    if (result.views.empty())
      add_exit(result.exit, std::ranges::max_element(logits) - logits.begin());
  }
  progress_.advance();
  return !(result.error && session_.run_request().fail_fast);
}

std::vector<Gallery> Evaluation::surest_errors(const image::Labels& labels) const {
  const PipelineOptions& pipeline = session_.pipeline();
  return {{"Surest errors", errors_.pictures(set_, labels, pipeline.decode, pipeline.notice)}};
}

}  // namespace hydrascope::app
