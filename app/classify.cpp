// hydrascope classify: top-k classes of images, folders, globs, lists and video.
#include "app/command.h"
#include "app/model/auto_precision.h"
#include "app/model/model_source.h"
#include "app/model/precision_check.h"
#include "app/options/option_builders.h"
#include "app/pictures/inputs.h"
#include "app/pipeline/picture_records.h"
#include "app/pipeline/pipeline.h"
#include "app/results/classify_record.h"
#include "app/results/npy_file.h"
#include "app/results/resumed_records.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/process_team.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <istream>
#include <optional>
#include <thread>
#include <unistd.h>

namespace hydrascope::app {
namespace {

struct ClassifyRequest : PicturesRequest {
  LabelType label_type = LabelType::name;
  std::int64_t topk = 5;
  std::string save_logits = {};
  std::string save_input = {};
  std::int64_t video_stride = 0;  ///< 0: a frame a second
  bool resume = false;
};

void check_resumable(const ClassifyRequest& request) {
  const auto& [file, format] = request.output;
  if (is_stream(file) || format != Format::jsonl)
    throw UsageError("needs the records of a file in jsonl", "--resume", "--output FILE.jsonl");
  if (!request.save_logits.empty() || !request.save_input.empty())
    throw UsageError("arrays begin anew", "--resume beside --save-logits or --save-input");
}

ClassifyRequest classify_request(const ParsedOptions& options) {
  ClassifyRequest request{pictures_request(options, AutoExif::upright)};
  refuse_beside_views(options, {"save-logits", "save-input"});
  const OptionReader read(options);
  request.label_type = parse_label_type(options.text("label-type"));
  read.take("topk", request.topk);
  read.take("save-logits", request.save_logits);
  read.take("save-input", request.save_input);
  read.take("video-stride", request.video_stride);
  read.take("resume", request.resume);
  for (const char* name : {"save-logits", "save-input"})
    if (options.given(name)) check_output_file(options.text(name), options.origin(name));
  if (request.resume) check_resumable(request);
  return request;
}

/// Several processes write into files of their own, or whole lines to one standard output.
void check_shareable(const ProcessTeam& team, const ClassifyRequest& request) {
  if (!team.has_others()) return;
  if (std::ranges::find(request.words, "-") != request.words.end()) {
    throw UsageError("paths on standard input cannot be shared by several processes", "-",
                     "write them to a file and name it as @list.txt");
  }
  const auto& [file, format] = request.output;
  if (!is_stream(file)) return;
  if (format != Format::text && format != Format::jsonl) {
    throw UsageError("is one table or list, which several processes cannot write to one output",
                     "--format " + std::string(format_name(format)),
                     "--format jsonl, or --output FILE: each process writes its own");
  }
}

}  // namespace

int run_classify(const ParsedOptions& options) {
  ProcessTeam team;
  const ClassifyRequest request = classify_request(options);
  const Console console = team.is_first() ? request.console : request.console.errors_only();
  RunRequest run = request.run;
  run.launch = team.launch();
  const std::vector<std::string>& words = request.words;
  const std::optional<OpenedModel> opened = open_for_pictures(request);
  if (!opened) return kExitOk;
  const auto& [source, transform] = *opened;
  require_inputs(words, "classify");
  check_shareable(team, request);
  if (run.check_precision) team.refuse("--check-precision");
  const image::Labels labels = resolve_labels(request.labels, source).labels;
  if (request.label_type == LabelType::id && !labels.has_ids()) {
    throw UsageError("the labels have no ids", "--label-type id");
  }
  opened->announce(console, request.transform.is_printed);
  team.join(run.join_timeout);
  const std::jthread decoders =
      run.decode.reader == nullptr ? image::prepare_to_decode(words) : std::jthread();
  run = with_fastest_precision(std::move(run), source.config, console, &team);
  model::Classifier classifier = make_classifier(run, source, transform.config, console);

  PipelineOptions pipeline = pipeline_options(run, transform.config);
  pipeline.keep_input = !request.save_input.empty();
  pipeline.video_stride = request.video_stride;

  OutputFile output(
      team.own_file(request.output.file), "--output", team.has_others(),
      request.resume ? OutputFile::Start::after_whole_lines : OutputFile::Start::anew);
  std::optional<ResumedRecords> earlier;
  if (request.resume && output.part().empty())
    throw UsageError("a device or a pipe holds no records", "--resume", "--output FILE.jsonl");
  if (request.resume) earlier.emplace(output.part());
  if (earlier) output.cut(earlier->bytes());
  RecordStream records(request.output.format, output.stream(), kClassifyColumns, kClassifyRows);
  std::optional<NpyWriter> logits_file;
  std::optional<NpyWriter> input_file;
  if (!request.save_logits.empty()) logits_file.emplace(team.own_file(request.save_logits));
  if (!request.save_input.empty()) input_file.emplace(team.own_file(request.save_input));

  const ClassifyRecords described(classifier, pipeline.transform, labels);
  std::int64_t failed = earlier ? earlier->num_failed() : 0;
  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  InputStream inputs(words, request.recursive, standard_input);
  std::int64_t number = 0;
  const auto next_input = [&] {
    std::optional<Input> input = inputs.next();
    while (input && (!team.takes(number++) || (earlier && earlier->answers(*input))))
      input = inputs.next();
    return input;
  };
  Progress progress("classify", std::nullopt, console.progress);
  if (earlier && earlier->num_inputs() > 0) {
    console.note(std::to_string(earlier->num_inputs()) + " inputs have their records");
    for (std::int64_t i = 0; i < earlier->num_inputs(); ++i) progress.advance();
  }
  InputCount count(words, request.recursive, progress,
                   [&](std::int64_t input) { return team.takes(input); });
  PrecisionCheck check(run.check_precision);
  const auto report = [&](const PipelineResult& result) {
    check.add(result);
    const ClassifyRecord record = described.of(result, request.topk);
    progress.hide();
    records.write(to_json(record), to_text(record, request.label_type, console.color));
    if (logits_file) {
      if (result.error) {
        logits_file->append_nan();
      } else {
        logits_file->append({result.logits.const_data_ptr<float>(),
                             static_cast<std::size_t>(result.logits.numel())},
                            result.logits.sizes());
      }
    }
    if (input_file) {
      if (result.error) {
        input_file->append_nan();
      } else {
        const at::Tensor input = model_input(pipeline, result);
        input_file->append({input.const_data_ptr<float>(), static_cast<std::size_t>(input.numel())},
                           input.sizes());
      }
    }
    progress.advance();
    count.begin();
    if (result.error) ++failed;
    return !(result.error && run.fail_fast) && static_cast<bool>(output.stream());
  };
  pipeline.remark_on_size = remark_on_large_sizes(source);
  pipeline.notice = [&](const std::string& text) {
    progress.hide();
    console.note(text);
  };
  const PipelineTiming timing = run_pipeline(next_input, classifier.engine(), pipeline, report);
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  records.finish();
  if (logits_file) logits_file->close();
  if (input_file) input_file->close();
  output.close();
  console.detail(timing.describe(model_threads(run), pipeline.workers));
  if (check.is_wanted() && !stop_requested()) {
    console.note(
        check.compare(run, source, transform.config, request.video_stride, console).describe());
  }
  // This ends the other processes, too.
  if (failed > 0 && run.fail_fast && !stop_requested()) return kExitFailed;
  team.sum({&failed});
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
