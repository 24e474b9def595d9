#include "app/evaluate/evaluation.h"

#include "app/evaluate/evaluated_set.h"
#include "app/signal_stop.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

std::span<const float> values_of(const at::Tensor& logits) {
  return {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())};
}

}  // namespace

Evaluation::Evaluation(const ParsedOptions& options, const LabelledSet& set,
                       model::Classifier& classifier, const PipelineOptions& pipeline,
                       const Console& console)
    : set_(set),
      classifier_(classifier),
      pipeline_(pipeline),
      fail_fast_(options.text("on-error") == "fail"),
      progress_("evaluate", std::ssize(set.pictures), console.progress),
      scores_(set) {
  pipeline_.notice = [&](const std::string& text) {
    progress_.hide();
    console.note(text);
  };
  if (options.given("save-logits")) logits_.emplace(options.text("save-logits"));
  if (options.given("save-errors")) {
    errors_.emplace(options.text("save-errors"),
                    static_cast<std::size_t>(options.integer("most-errors")));
  }
}

void Evaluation::run(FaithfulnessRun* faithfulness, ReferenceModel* reference) {
  if (faithfulness != nullptr) {
    run_in_parts(faithfulness->pictures_at_once(), faithfulness, reference);
  } else if (reference != nullptr) {
    constexpr std::size_t kEnough = 1024;
    run_in_parts(kEnough, faithfulness, reference);
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
  timing_ += run_pipeline(next_input, classifier_, pipeline_, done);
}

void Evaluation::run_in_parts(std::size_t at_once, FaithfulnessRun* faithfulness,
                              ReferenceModel* reference) {
  const std::size_t all = set_.pictures.size();
  for (bool go_on = true; go_on && next_ < all && !stop_requested();) {
    const std::size_t begin = next_;
    std::vector<PipelineResult> results;
    classify_until(std::min(begin + at_once, all), [&](PipelineResult& result) {
      results.push_back(std::move(result));
      return true;
    });
    std::vector<at::Tensor> others(results.size());
    if (reference != nullptr) {
      others = reference->classify(std::span(set_.pictures).subspan(begin, results.size()),
                                   pipeline_.notice);
    }
    for (std::size_t i = 0; go_on && i < others.size(); ++i) {
      const PipelineResult& result = results[i];
      go_on = faithfulness == nullptr || result.error.has_value() ||
              faithfulness->add(result, set_.pictures[reported_].target, reported_);
      if (go_on) go_on = add(result, others[i]);
    }
  }
}

bool Evaluation::add(const PipelineResult& result, const at::Tensor& reference) {
  const std::size_t index = reported_++;
  if (result.error) {
    scores_.add_failure();
    progress_.hide();
    std::cerr << "error: " << result.input.given << ": " << name(*result.error) << ": "
              << result.message << '\n';
    if (logits_) logits_->append_nan();
  } else {
    const std::span<const float> logits = values_of(result.logits);
    const ScoredPicture picture = score_picture(logits, set_.pictures[index].target, index);
    scores_.add(picture);
    if (reference.defined()) scores_.add_reference(picture, logits, values_of(reference));
    if (errors_) errors_->add(picture);
    if (logits_) logits_->append(logits, result.logits.sizes());
  }
  progress_.advance();
  return !(result.error && fail_fast_);
}

void Evaluation::write_errors(const image::Labels& labels) const {
  if (errors_) errors_->write(set_, labels, pipeline_.decode, pipeline_.notice);
}

}  // namespace hydrascope::app
