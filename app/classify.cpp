// hydrascope classify: top-k classes of images, folders, globs, lists and video.
#include "app/command.h"
#include "app/model/auto_precision.h"
#include "app/model/model_metadata.h"
#include "app/model/model_source.h"
#include "app/options/option_builders.h"
#include "app/pictures/input_count.h"
#include "app/pipeline/pipeline.h"
#include "app/pipeline/predictions.h"
#include "app/results/classify_record.h"
#include "app/results/npy_file.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/process_team.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "kernels/error.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <thread>
#include <unistd.h>

namespace hydrascope::app {
namespace {

/// Several processes write into files of their own, or whole lines to one standard output.
void check_shareable(const ProcessTeam& team, const ParsedOptions& options,
                     const std::vector<std::string>& words) {
  if (!team.has_others()) return;
  if (std::ranges::find(words, "-") != words.end()) {
    throw Error(ErrorCode::invalid_argument,
                "paths on standard input cannot be shared by several processes", "-",
                "write them to a file and name it as @list.txt");
  }
  const std::string& output = options.text("output");
  if (!output.empty() && output != "-") return;
  const Format format = choose_format(options.text("format"), output);
  if (format != Format::text && format != Format::jsonl) {
    throw Error(ErrorCode::invalid_argument,
                "is one table or list, which several processes cannot write to one output",
                "--format " + options.text("format"),
                "--format jsonl, or --output FILE: each process writes its own");
  }
}

}  // namespace

int run_classify(const ParsedOptions& options) {
  ProcessTeam team;
  const Console console = team.is_first() ? Console(options) : Console(options).errors_only();
  const TransformRequest wanted = transform_request(options);
  RunRequest run = run_request(options, AutoExif::upright);
  run.launch = team.launch();
  const std::vector<std::string> words = input_words(options);
  refuse_beside_views(options, {"save-logits", "save-input"});
  const ModelSource source = open_model(model_request(options));
  const ResolvedTransform transform = resolve_transform(wanted, source);
  if (wanted.is_printed && words.empty()) {
    std::cout << transform.describe() << '\n';
    return kExitOk;
  }
  if (words.empty()) {
    throw Error(ErrorCode::invalid_argument, "no input given", "classify",
                "name pictures, folders or globs; see `hydrascope help classify`");
  }
  check_shareable(team, options, words);
  const std::int64_t topk = options.integer("topk");
  const image::Labels labels = resolve_labels(options.text("labels"), source).labels;
  if (options.text("label-type") == "id" && !labels.has_ids()) {
    throw Error(ErrorCode::invalid_argument, "the labels have no ids", "--label-type id");
  }
  for (const std::string& note : source.notes) console.note("note: " + note);
  // Beside records it is no result, so it goes where notes go.
  if (wanted.is_printed || console.verbose) console.note(transform.describe());
  team.join(run.join_timeout);
  const std::jthread decoders = image::prepare_to_decode(words);
  run = with_fastest_precision(std::move(run), source.config, console, &team);
  model::Classifier classifier = make_classifier(run, source, transform.config, console);

  PipelineOptions pipeline = pipeline_options(run, transform.config);
  pipeline.keep_input = options.given("save-input");
  if (options.given("video-stride")) pipeline.video_stride = options.integer("video-stride");

  OutputFile output(team.own_file(options.text("output")), "--output", team.has_others());
  RecordStream records(choose_format(options.text("format"), options.text("output")),
                       output.stream(), classify_columns(), kClassifyRows);
  const LabelType label_type = parse_label_type(options.text("label-type"));
  std::optional<NpyWriter> logits_file;
  std::optional<NpyWriter> input_file;
  if (options.given("save-logits")) logits_file.emplace(team.own_file(options.text("save-logits")));
  if (options.given("save-input")) input_file.emplace(team.own_file(options.text("save-input")));

  const std::string attention = model::to_text(source.config.attention);
  const auto attention_options = computed_options(source.config);
  std::int64_t failed = 0;
  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  InputStream inputs(words, options.flag("recursive"), standard_input);
  std::int64_t number = 0;
  const auto next_input = [&] {
    std::optional<Input> input = inputs.next();
    while (input && !team.takes(number++)) input = inputs.next();
    return input;
  };
  Progress progress("classify", std::nullopt, console.progress);
  InputCount count(words, options.flag("recursive"), progress,
                   [&](std::int64_t input) { return team.takes(input); });
  const auto report = [&](const PipelineResult& result) {
    ClassifyRecord record;
    record.input = result.input.given;
    record.frame = result.frame;
    record.error = result.error;
    record.message = result.message;
    if (!result.error) {
      record.width = result.picture.width;
      record.height = result.picture.height;
      record.model_size = {result.model_size.height, result.model_size.width};
      record.tokens = classifier.num_tokens(result.model_size.height, result.model_size.width);
      if (result.views) {
        record.views = image::views_name(pipeline.transform);
        record.num_views = std::ssize(result.views->plans);
      }
      record.top = top_classes(result, topk, labels);
      record.device = classifier.options().device.str();
      record.precision = classifier.options().precision.name();
      record.attention = attention;
      record.attention_options = attention_options;
      record.approximations = classifier.approximations();
      const std::string kernels = classifier.describe().kernels;
      if (kernels != "fused") record.kernels = kernels;
      record.seconds = result.seconds;
      record.note = result.note;
    }
    progress.hide();
    records.write(to_json(record), to_text(record, label_type, console.color));
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
  pipeline.remark_on_size = note_on_large_sizes(source);
  pipeline.notice = [&](const std::string& text) {
    progress.hide();
    console.note(text);
  };
  const PipelineTiming timing = run_pipeline(next_input, classifier, pipeline, report);
  progress.finish();
  records.finish();
  if (logits_file) logits_file->close();
  if (input_file) input_file->close();
  output.close();
  console.detail(timing.describe(model_threads(run), pipeline.workers));
  // This ends the other processes, too.
  if (failed > 0 && run.fail_fast && !stop_requested()) return kExitFailed;
  team.sum({&failed});
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (failed > 0) return kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
