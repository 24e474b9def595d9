// hydrascope classify: top-k classes of images, folders, globs, lists and video.
#include "app/command.h"
#include "app/model/model_metadata.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/pipeline/predictions.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "app/specs/requests.h"
#include "app/tasks/features.h"
#include "app/tasks/record_run.h"
#include "model/registry/attention_spec.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace hydrascope::app {
namespace {

bool is_resumable(const OutputRequest& output) {
  return !is_stream(output.file) && output.format == Format::jsonl;
}

ClassifyRequest classify_request(const ParsedOptions& options) {
  ClassifyRequest request{pictures_request(options, AutoExif::upright,
                                           {&ClassifyRequest::save_input, &VoteRequest::store,
                                            &RunRequest::memory, &RunRequest::memory_options})};
  options.fill(request);
  for (const auto& [field, file] :
       {std::pair(Field(&ClassifyRequest::save_logits), request.save_logits),
        {&ClassifyRequest::save_input, request.save_input}})
    if (!file.empty()) check_output_file(file, options[field].origin, FileKind::array);
  check_frames(request, request.video_average);
  if (request.resume && !is_resumable(request.output))
    throw UsageError("needs the records of a file in jsonl", "`resume`", "`output` FILE.jsonl");
  if (request.resume && !(request.save_logits.empty() && request.save_input.empty()))
    throw UsageError("arrays begin anew", "`resume` beside `save_logits` or `save_input`");
  request.vote = vote_request(options, request);
  return request;
}

/// The model and the settings of the answers, which a later run that goes on with their file must have, too.
std::string origin_of(const ParsedOptions& options, const ClassifyRequest& request,
                      const Session& session) {
  std::string text = session.source().name + ", " + model::to_text(session.config().attention);
  for (const auto& [option, value] : computed_options(session.config()))
    text += ", " + option + "=" + value;
  text += "; " + image::describe(session.transform()) + "; precision " + request.run.precision;
  for (const Field& field : std::initializer_list<Field>{
           &ClassifyRequest::topk, &ClassifyRequest::video_stride, &ClassifyRequest::video_average,
           &PicturesRequest::labels, &ModelRequest::classes, &VoteRequest::store, &VoteRequest::k,
           &VoteRequest::share})
    if (const GivenOption& given = options[field]; !given.is(given.option.default_value))
      text += ", " + given.option.name + "=" + given.text();
  return text;
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
  const std::unique_ptr<Session> session = open_session(request, request.vote);
  require_inputs(request.words, "classify");
  if (!session->labels().has_ids() && request.label_type == LabelType::id)
    throw UsageError("the labels have no ids", "`label_type` id");
  session->announce();
  const std::jthread decoders = image::prepare_to_decode(request.words);
  session->load();
  session->pipeline().keep_input = !request.save_input.empty();
  session->pipeline().video_stride = request.video_stride;
  session->pipeline().video_average = request.video_average;

  RowsOfInputs logits(request.save_logits);
  RowsOfInputs tensors(request.save_input);
  const auto record_of = [&](PipelineResult& result) {
    logits.add(result, [&] { return result.logits; });
    tensors.add(result, [&] { return model_input(result); });
    const ClassifyRecord record = session->record(result, request.topk);
    return std::pair(to_json(record), to_text(record, request.label_type, request.console.color));
  };
  std::optional<std::string> origin;
  if (is_resumable(request.output)) origin = origin_of(options, request, *session);
  const int code = write_records(*session, request,
                                 {.command = "classify",
                                  .columns = std::string(kClassifyColumns),
                                  .each = std::string(kClassifyRows),
                                  .record = record_of,
                                  .origin = std::move(origin),
                                  .resumes = request.resume});
  logits.close();
  tensors.close();
  return exit_code_after_stop(code);
}

}  // namespace hydrascope::app
