// hydrascope classify: top-k classes of images, folders, globs, lists and video.
#include "app/command.h"
#include "app/model/resolve_labels.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/pictures/resumed_records.h"
#include "app/pipeline/predictions.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/session/precision_check.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "app/tasks/features.h"

#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <thread>
#include <unistd.h>

namespace hydrascope::app {
namespace {

void check_resumable(const ClassifyRequest& request) {
  const auto& [file, format] = request.output;
  if (is_stream(file) || !holds_lines_of_json(format))
    throw UsageError("needs the records of a file in jsonl", "`resume`", "`output` FILE.jsonl");
  if (!request.save_logits.empty() || !request.save_input.empty())
    throw UsageError("arrays begin anew", "`resume` beside `save_logits` or `save_input`");
}

ClassifyRequest classify_request(const ParsedOptions& options) {
  ClassifyRequest request{pictures_request(options, AutoExif::upright,
                                           {&ClassifyRequest::save_input, &ClassifyRequest::knn})};
  refuse_beside_views(options, {&ClassifyRequest::save_logits, &ClassifyRequest::save_input});
  options.fill(request);
  for (const auto& [field, file] :
       {std::pair(Field(&ClassifyRequest::save_logits), request.save_logits),
        {&ClassifyRequest::save_input, request.save_input}})
    if (!file.empty()) check_output_file(file, options[field].origin);
  if (request.resume) check_resumable(request);
  // A configuration that was dumped holds the default.
  if (request.knn.empty() && (request.knn_mix || request.knn_k != ClassifyRequest{}.knn_k))
    throw UsageError("stored pictures vote, and there are none",
                     request.knn_mix ? "`knn_mix`" : "`knn_k`", "add `knn` STORE");
  const auto& views = request.transform.views;
  if (!request.knn.empty() && views && views->value.have_places)
    throw UsageError("a vector is of one view",
                     "`knn` with " + views->origin + " " + std::string(views->value.name),
                     "`views` whole or native");
  if (!request.knn.empty() && !request.model.classes.empty())
    throw UsageError("two answers to what the classes are", "`knn` with `classes`");
  return request;
}

/// Null where the transform alone is asked for.
std::unique_ptr<Session> open_session(const ClassifyRequest& request) {
  if (request.knn.empty()) return Session::open(request);
  const auto store = std::make_shared<const VectorStore>(request.knn);
  ModelRequest voter = request.model;
  voter.may_lack_classes = true;
  ModelSource source = open_model(voter);
  const bool has_classes = source.config.num_classes > 0;
  const image::Labels labels =
      has_classes ? resolve_labels(request.labels, source).labels : image::Labels();
  PicturesRequest wanted = request;
  if (!request.knn_mix) wanted.labels.clear();  // they are the store's
  std::unique_ptr<Session> session = Session::open(
      wanted, voting_source(std::move(source), store, {request.knn_k, request.knn_mix}, labels));
  if (session)
    store->facts().require_same(
        facts_of(session->source(), session->transform(), store->facts().features, ""),
        store->file());
  return session;
}

/// A row of an array for every input, if its file is asked for.
class RowsOfInputs {
 public:
  explicit RowsOfInputs(const std::string& file) {
    if (!file.empty()) writer_.emplace(file);
  }
  /// `row` is not asked for a failed input.
  void add(const PipelineResult& result, const std::function<at::Tensor()>& row) {
    if (!writer_) return;
    if (result.error) return writer_->append_nan();
    const at::Tensor values = row();
    writer_->append(values_of(values), values.sizes());
  }
  void close() {
    if (writer_) writer_->close();
  }

 private:
  std::optional<NpyWriter> writer_;
};

}  // namespace

int run_classify(const ParsedOptions& options) {
  refuse_shares();
  const ClassifyRequest request = classify_request(options);
  const std::unique_ptr<Session> session = open_session(request);
  if (!session) return kExitOk;
  require_inputs(request.words, "classify");
  if (!session->labels().has_ids() && request.label_type == LabelType::id)
    throw UsageError("the labels have no ids", "`label_type` id");
  session->announce();
  const std::jthread decoders = image::prepare_to_decode(request.words);
  session->load();
  session->pipeline().keep_input = !request.save_input.empty();
  session->pipeline().video_stride = request.video_stride;

  OutputFile output(
      request.output.file, "`output`",
      request.resume ? OutputFile::Start::after_whole_lines : OutputFile::Start::anew);
  std::optional<ResumedRecords> earlier;
  if (request.resume && output.part().empty())
    throw UsageError("a device or a pipe holds no records", "`resume`", "`output` FILE.jsonl");
  if (request.resume) earlier.emplace(output.part());
  if (earlier) output.cut(earlier->bytes());
  RecordStream records(request.output.format, output.stream(), kClassifyColumns, kClassifyRows);
  RowsOfInputs logits(request.save_logits);
  RowsOfInputs tensors(request.save_input);

  const Console& console = request.console;
  std::int64_t failed = earlier ? earlier->num_failed() : 0;
  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  InputStream inputs(request.words, request.recursive, standard_input);
  const auto next_input = [&] {
    std::optional<Input> input = inputs.next();
    while (input && earlier && earlier->answers(*input)) input = inputs.next();
    return input;
  };
  Progress progress("classify", std::nullopt, console.progress);
  session->hide_for_notes(progress);
  if (earlier && earlier->num_inputs() > 0) {
    console.note(std::to_string(earlier->num_inputs()) + " inputs have their records");
    progress.advance(earlier->num_inputs());
  }
  InputCount count(request.words, request.recursive, progress);
  PrecisionCheck check(request.run.check_precision);
  const PipelineTiming timing = session->run(next_input, [&](PipelineResult& result) {
    check.add(result);
    const ClassifyRecord record = session->record(result, request.topk);
    progress.hide();
    records.write(to_json(record), to_text(record, request.label_type, console.color));
    logits.add(result, [&] { return result.logits; });
    tensors.add(result, [&] { return model_input(result); });
    progress.advance();
    count.begin();
    if (result.error) {
      print_failure(Error(*result.error, result.message, result.input.given));
      ++failed;
    }
    return !(result.error && request.run.fail_fast) && static_cast<bool>(output.stream());
  });
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  records.finish();
  logits.close();
  tensors.close();
  output.close();
  session->describe(timing);
  if (check.is_wanted() && !stop_requested()) console.note(check.compare(*session).describe());
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
