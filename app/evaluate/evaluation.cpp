#include "app/evaluate/evaluation.h"

#include "app/evaluate/evaluated_set.h"
#include "app/evaluate/evaluation_page.h"
#include "app/model/model_metadata.h"
#include "app/run/console.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

namespace {

/// `--attn` of the reference's request was written `--against-attn`.
ModelSource open_as_reference(const ModelRequest& request) {
  try {
    return open_model(request);
  } catch (const Error& error) {
    const std::string flag = with_flags(error.subject());
    if (!flag.starts_with("--attn")) throw;
    throw Error(error.code(), error.what(), "--against-" + flag.substr(2), error.hint(),
                error.where());
  }
}

}  // namespace

ModelSource open_reference(const ModelRequest& request, const ModelSource& model) {
  ModelSource source = open_as_reference(request);
  if (source.config.num_classes != model.config.num_classes) {
    throw UsageError("has " + std::to_string(source.config.num_classes) + " classes, " +
                         model.name + " has " + std::to_string(model.config.num_classes),
                     "--against " + source.name);
  }
  return source;
}

ReferenceModel::ReferenceModel(ReferenceRequest request, const TransformRequest& transform,
                               const ModelSource& model)
    : run_(std::move(request.run)),
      source_(open_reference(request.model, model)),
      transform_(resolve_transform(transform, source_)) {}

void ReferenceModel::load(const Console& console) {
  for (const std::string& note : source_.notes) console.note("note: --against: " + note);
  transform_.say_assumed(console, "--against: ");
  console.detail("against: " + transform_.describe());
  classifier_.emplace(make_classifier(run_, source_, transform_.config, console));
}

std::vector<at::Tensor> ReferenceModel::classify(
    std::span<const LabelledPicture> pictures,
    const std::function<void(const std::string&)>& notice) {
  PipelineOptions pipeline = pipeline_options(run_, transform_.config);
  pipeline.keep_input = false;
  pipeline.notice = notice;
  std::size_t next = 0;
  std::vector<at::Tensor> logits;
  const auto next_input = [&]() -> std::optional<Input> {
    if (next == pictures.size()) return std::nullopt;
    return input_of(pictures[next++]);
  };
  run_pipeline(next_input, classifier_->engine(), pipeline, [&](const PipelineResult& result) {
    logits.push_back(result.logits);
    return true;
  });
  return logits;
}

void ReferenceModel::add_facts(Summary& summary) const {
  const image::TransformConfig& transform = transform_.config;
  summary.add("against", source_.name);
  summary.add("against_attention", model::to_text(source_.config.attention));
  if (const auto values = computed_options(source_.config); !values.empty())
    summary.add("against_attention_options", values);
  summary.add_size("against_img_size", transform.img_size.height, transform.img_size.width);
  summary.add("against_precision", std::string(classifier_->options().precision.name()));
}

namespace {

std::span<const float> values_of(const at::Tensor& logits) {
  return {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())};
}

std::vector<std::size_t> share_of(const LabelledSet& set, const ProcessTeam& team) {
  std::vector<std::size_t> share;
  for (std::size_t i = 0; i < set.pictures.size(); ++i)
    if (team.takes(static_cast<std::int64_t>(i))) share.push_back(i);
  return share;
}

}  // namespace

Evaluation::Evaluation(const ScoreRequest& wanted, const SetJobs& jobs, bool fail_fast,
                       const LabelledSet& set, model::Classifier& classifier,
                       const PipelineOptions& pipeline, const Console& console, ProcessTeam& team)
    : set_(set),
      team_(team),
      own_(share_of(set, team)),
      classifier_(classifier),
      pipeline_(pipeline),
      fail_fast_(fail_fast),
      page_(wanted.html),
      has_sheets_(!wanted.save_errors.empty()),
      progress_(jobs.command, std::ssize(own_), console.progress),
      scores_(set) {
  pipeline_.notice = [&](const std::string& text) {
    progress_.hide();
    console.note(text);
  };
  if (!wanted.save_logits.empty())
    logits_.emplace(team, wanted.save_logits, classifier.config().num_classes);
  if ((has_sheets_ || !page_.empty()) && team.is_first())
    errors_.emplace(wanted.save_errors, wanted.most_errors);
}

void Evaluation::run(FaithfulnessRun* faithfulness, ReferenceModel* reference) {
  if (faithfulness != nullptr) {
    run_in_parts(faithfulness->pictures_at_once(), faithfulness, reference);
  } else if (reference != nullptr) {
    constexpr std::size_t kEnough = 1024;
    run_in_parts(kEnough, faithfulness, reference);
  } else {
    classify_until(own_.size(), [&](const PipelineResult& result) { return add(result, {}); });
  }
  progress_.finish();
}

void Evaluation::gather() {
  if (logits_) logits_->close();
  if (!team_.has_others()) return;
  // One row per picture of the set; all but one process add zeros to it.
  constexpr std::int64_t kScored = 1;
  constexpr std::int64_t kFailed = 2;
  constexpr std::int64_t kColumns = 8;
  const at::Tensor table = at::zeros({std::ssize(set_.pictures), kColumns}, at::kDouble);
  const auto row_of = [&](std::size_t index) {
    return table.data_ptr<double>() + static_cast<std::int64_t>(index) * kColumns;
  };
  for (const ScoredPicture& picture : scored_) {
    double* row = row_of(picture.index);
    row[0] = kScored;
    row[1] = static_cast<double>(picture.predicted);
    row[2] = picture.confidence;
    row[3] = static_cast<double>(picture.rank);
    row[4] = picture.target_probability;
    row[5] = picture.log_loss;
    row[6] = picture.brier;
  }
  for (const std::size_t index : failures_) *row_of(index) = kFailed;
  team_.sum(table);
  team_.sum({&timing_.images});
  timing_.seconds = std::ranges::max(team_.gather(timing_.seconds));
  for (std::size_t index = 0; index < set_.pictures.size(); ++index) {
    const double* row = row_of(index);
    if (row[0] == kFailed) scores_.add_failure();
    if (row[0] != kScored) continue;
    take({index, set_.pictures[index].target, static_cast<std::int64_t>(row[1]), row[2],
          static_cast<std::int64_t>(row[3]), row[4], row[5], row[6]});
  }
}

void Evaluation::take(const ScoredPicture& picture) {
  scores_.add(picture);
  if (errors_) errors_->add(picture);
}

void Evaluation::classify_until(std::size_t end, const std::function<bool(PipelineResult&)>& done) {
  const auto next_input = [&]() -> std::optional<Input> {
    if (next_ == end) return std::nullopt;
    return input_of(set_.pictures[own_[next_++]]);
  };
  timing_ += run_pipeline(next_input, classifier_.engine(), pipeline_, done);
}

void Evaluation::run_in_parts(std::size_t at_once, FaithfulnessRun* faithfulness,
                              ReferenceModel* reference) {
  const std::size_t all = own_.size();
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
  const std::size_t index = own_[reported_++];
  if (check_ != nullptr) check_->add(result);
  if (result.error) {
    failures_.push_back(index);
    if (!team_.has_others()) scores_.add_failure();
    progress_.hide();
    // In one write: several processes may share the terminal.
    std::cerr << "error: " + printable(result.input.given) + ": " +
                     std::string(name(*result.error)) + ": " + printable(result.message) + '\n';
    if (logits_) logits_->append_nan();
  } else {
    const std::span<const float> logits = values_of(result.logits);
    const std::int64_t target = set_.pictures[index].target;
    const ScoredPicture picture = result.views ? score_picture(result.views->best, target, index)
                                               : score_picture(logits, target, index);
    if (team_.has_others()) {
      scored_.push_back(picture);
    } else {
      take(picture);
    }
    if (reference.defined()) scores_.add_reference(picture, logits, values_of(reference));
    if (logits_) logits_->append(result.logits);
  }
  progress_.advance();
  return !(result.error && fail_fast_);
}

void Evaluation::write_errors(const image::Labels& labels, const Summary& summary) const {
  if (!errors_) return;
  if (has_sheets_) errors_->write(set_, labels, pipeline_.decode, pipeline_.notice);
  if (page_.empty()) return;
  constexpr std::size_t kOnPage = 24;
  write_evaluation_page(
      page_, summary, scores_, labels,
      errors_->pictures(0, kOnPage, set_, labels, pipeline_.decode, pipeline_.notice));
}

}  // namespace hydrascope::app
