// hydrascope embed: vectors of pictures into a store.
#include "app/command.h"
#include "app/model/resolve_labels.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/pictures/labelled_set.h"
#include "app/pipeline/predictions.h"
#include "app/results/report.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "app/store/store_writer.h"
#include "app/tasks/features.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

EmbedRequest embed_request(const ParsedOptions& options) {
  EmbedRequest request{one_view_request(options, AutoExif::upright)};
  options.fill(request);
  request.model.may_lack_classes = true;
  request.output.format =
      choose_format(options[&OutputRequest::format].text(), "", report_formats());
  if (request.label_folders && !request.labels_csv.empty())
    throw UsageError("labels have one source", "`label_folders` with `labels_csv`");
  if (request.output.file.empty() || is_stream(request.output.file))
    throw UsageError("a store is a file", "`output`", "`output` NAME.safetensors");
  return request;
}

/// The classes that a table of labels names: `--labels`, which may name others than the model's, or else the
/// model's own.
image::Labels classes_of_table(const EmbedRequest& request, const ModelSource& source) {
  if (request.labels_csv.empty()) return {};
  if (const auto file = labels_file(request.labels)) return image::Labels::load(*file);
  image::Labels labels = resolve_labels("", source).labels;
  if (labels.size() == 0)
    throw UsageError("has no classes", source.name, "`labels` FILE names the table's classes");
  return labels;
}

/// The inputs one by one, each with its label.
class LabelledInputs {
 public:
  /// `labels` are the classes that a table names.
  LabelledInputs(const EmbedRequest& request, const image::Labels& labels) {
    if (request.label_folders) {
      listed_ = read_folder_labels(request.words, request.recursive, notes_);
      return;
    }
    if (request.labels_csv.empty()) {
      stream_.emplace(request.words, request.recursive);
      return;
    }
    if (request.words.size() != 1)
      throw UsageError("expected one folder, found " + std::to_string(request.words.size()),
                       "`labels_csv`");
    for (const LabelledPicture& picture :
         read_labels_csv(request.labels_csv, request.words.front(), labels).pictures) {
      if (picture.target == kNoClass)
        throw UsageError("gives " + picture.file.string() + " no class", request.labels_csv);
      const image::Label& label = labels.at(picture.target);
      listed_.emplace_back(input_of(picture), label.id.empty() ? label.names : label.id);
    }
  }
  /// Called on the pipeline's reading thread.
  std::optional<Input> next() {
    if (stream_) return stream_->next();
    if (next_ == listed_.size()) return std::nullopt;
    Input input = listed_[next_].first;
    input.number = static_cast<std::int64_t>(next_++);
    return input;
  }
  [[nodiscard]] std::string label_of(const Input& input) const {
    return stream_ ? "" : listed_[static_cast<std::size_t>(input.number)].second;
  }
  [[nodiscard]] std::vector<std::string> notes() const {
    return stream_ ? stream_->passed().notes() : notes_;
  }

 private:
  std::optional<InputStream> stream_;
  std::vector<LabelledInput> listed_;
  std::vector<std::string> notes_;
  std::size_t next_ = 0;
};

}  // namespace

int run_embed(const ParsedOptions& options) {
  refuse_shares();
  EmbedRequest request = embed_request(options);
  const bool of_patches = request.features == "patches";
  StoreWriter store(request.output.file, request.force);
  // The vectors of a store have one precision.
  if (const auto& earlier = store.earlier_facts(); earlier && request.run.precision == "auto")
    request.run.precision = earlier->precision;
  const std::unique_ptr<Session> session =
      Session::open(request, feature_source(open_model(request.model), request.features));
  require_inputs(request.words, "embed");
  LabelledInputs inputs(request, classes_of_table(request, session->source()));
  session->announce();
  const std::jthread decoders = image::prepare_to_decode(request.words);
  session->load({.embeddings = true, .patches = of_patches});
  const std::string precision = session->facts().precision;
  StoreFacts facts = facts_of(session->source(), session->transform(),
                              request.run.decode.apply_exif, request.features, precision);

  const Console& console = request.console;
  const auto ended = [&] {
    console.note("note: the same command goes on with the store, without `force`");
    return exit_code_after_stop(kExitOk);
  };
  std::vector<std::pair<Input, std::string>> wanted;
  while (std::optional<Input> input = inputs.next()) {
    std::string label = input->error ? "" : inputs.label_of(*input);
    if (input->is_video && !input->error) {
      input->error = ErrorCode::unsupported_format;
      input->message = "is a video; pictures are embedded";
    }
    input->stamp = stamp_of(*input);
    wanted.emplace_back(std::move(*input), std::move(label));
  }
  if (stop_requested()) return ended();
  std::vector<Input> missing = store.begin(facts, std::move(wanted), request.words);
  Progress progress("embed", std::ssize(missing), console.progress);
  session->hide_for_notes(progress);
  const PipelineTiming timing =
      session->run(one_by_one(std::move(missing)), [&](PipelineResult& result) {
        const std::string& name = result.input.given;
        if (result.error) {
          progress.hide();
          print_error(Error(*result.error, result.message, name));
          store.add_failure(result.input, record_error_code(*result.error),
                            spelled(result.message));
        } else if (of_patches) {
          const std::int64_t patch = session->config().patch_size;
          const at::Tensor tokens = session->patch_tokens(result);
          store.add(result.input, values_of(tokens), result.model_size.height / patch,
                    result.model_size.width / patch);
        } else {
          store.add(result.input, values_of(result.features));
        }
        progress.advance();
        return !(result.error && request.run.fail_fast);
      });
  progress.finish();
  for (const std::string& note : inputs.notes()) console.note(note);
  session->describe(timing);
  if (stop_requested()) return ended();
  if (store.num_failed() > 0 && request.run.fail_fast) return kExitFailed;
  store.finish();
  for (const std::string& note : store.notes()) console.note(note);

  Report report("hydrascope embed");
  report.add("model", facts.model);
  report.add("model_sha256", facts.model_sha256);
  report.add("attention", facts.attention);
  report.add("features", facts.features);
  report.add("transform", facts.transform);
  report.add("pictures", store.num_pictures());
  report.add("failed", store.num_failed());
  report.add("dimension", store.dim());
  report.add("images_per_second",
             static_cast<double>(timing.images) / std::max(timing.seconds, 1e-9), 1);
  report.add("seconds", timing.seconds, 2);
  report.add("device", session->facts().device);
  report.add("precision", facts.precision);
  report.add("store", request.output.file);
  report.write(request.output.format, std::cout);
  return store.num_failed() > 0 ? kExitSomeInputsFailed : kExitOk;
}

}  // namespace hydrascope::app
