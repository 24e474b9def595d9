// hydrascope visualize: which tokens a prediction rests on, drawn over the pictures and videos.
#include "app/command.h"
#include "app/model/auto_precision.h"
#include "app/model/model_source.h"
#include "app/pictures/inputs.h"
#include "app/pipeline/picture_records.h"
#include "app/pipeline/pipeline.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/visualize/map_choice.h"
#include "app/visualize/map_record.h"
#include "app/visualize/other_model.h"
#include "app/visualize/output_stage.h"
#include "app/visualize/visualization.h"
#include "app/visualize/visualize_options.h"
#include "kernels/error.h"
#include "viz/picture/encode.h"

#include <atomic>
#include <iostream>
#include <span>
#include <thread>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

/// A class that is found in one place of a frame and in another of the next has no steady map.
std::optional<Input> without_video(std::optional<Input> input, const std::string& views) {
  if (input && input->is_video && !input->error) {
    input->error = ErrorCode::unsupported_format;
    input->message = "is a video; " + views + " draws pictures";
  }
  return input;
}

/// Of one input.
std::size_t most_maps(const MapSelection& selection, const ClassChoice& classes) {
  std::int64_t count = 0;
  for (const MapChoice& choice : selection.maps)
    count += model::explain::entry_of(choice.method).of_class ? classes.most_classes() : 1;
  return static_cast<std::size_t>(count);
}

viz::ReportOptions with_facts(viz::ReportOptions report, const ModelSource& source,
                              const InputRecord& run, const ResolvedTransform& transform) {
  report.title = "hydrascope: what " + source.name + " looks at";
  report.facts = {{"model", source.name},
                  {"attention", run.attention},
                  {"device", run.device},
                  {"precision", run.precision},
                  {"transform", image::describe(transform.config)}};
  return report;
}

}  // namespace

int run_visualize(const ParsedOptions& options) {
  const VisualizeRequest request = visualize_request(options);
  const Console& console = request.console;
  const std::optional<OpenedModel> opened = open_for_pictures(request);
  if (!opened) return kExitOk;
  const auto& [source, transform] = *opened;
  const std::vector<std::string>& words = request.words;
  require_inputs(words, "visualize");
  const image::Labels labels = resolve_labels(request.labels, source).labels;
  RunRequest run = request.run;
  ClassChoice classes(request.classes, request.topk, labels);
  MapWords map_choice = request.maps;
  map_choice.of_class = !classes.is_default();
  const MapSelection selection = choose_maps(source.config, map_choice);
  OutputOptions outputs =
      heatmap_outputs(request, most_maps(selection, classes), loader_workers(run));
  std::optional<OtherModel> other;
  if (request.against) other.emplace(*request.against, request.transform, source, map_choice);
  opened->announce(console, request.transform.is_printed);
  for (const std::string& note : selection.notes) console.note("note: " + note);

  const std::jthread encoders = viz::prepare_to_encode();
  run = with_fastest_precision(std::move(run), source.config, console);
  const TracedFor wanted{selection.maps, map_choice.mapless};
  model::Classifier classifier = make_classifier(
      run, source, transform.config, console, MapExplainer::traced_layers(source.config, wanted));
  MapExplainer explainer(run.seed, source, wanted, classifier.options().device);
  if (other) other->load(run, console);
  PipelineOptions pipeline = pipeline_options(run, transform.config);
  pipeline.keep_input = false;
  pipeline.keep_picture = true;
  pipeline.video_stride = request.video_stride;
  pipeline.explained_classes = [classes](const Input&, const BestViews& best) {
    return classes.resolve(best.first(classes.num_best()), /*keep_repeated=*/false);
  };

  VisualizationOptions visualization_options;
  visualization_options.folder = outputs.folder;
  visualization_options.endings = {".heatmap" + std::string(viz::extension(outputs.image_format)),
                                   ".heatmap.mp4", ".map.npy", ".map.npz"};
  visualization_options.words = words;
  visualization_options.recursive = request.recursive;
  visualization_options.figure = outputs.figure;
  visualization_options.save_raw = outputs.save_raw;
  visualization_options.smoothing = request.smoothing;
  visualization_options.frames_as_video = request.frames_as_video;
  visualization_options.transform = pipeline.transform;
  visualization_options.max_pixels = pipeline.decode.max_pixels;
  visualization_options.run = facts_of_run(classifier);
  outputs.report =
      with_facts(std::move(outputs.report), source, visualization_options.run, transform);

  if (other) {
    outputs.report.models = names_of_two(source, other->source());
    outputs.report.facts.emplace_back("against", outputs.report.models[1]);
  }

  RecordStream records(request.output.format, std::cout, kMapColumns);
  Progress progress("visualize", std::nullopt, console.progress);
  InputCount count(words, request.recursive, progress);
  // `| head -1` ends the run, but not in the middle of a file.
  const HeldPipeSignal held_signal;
  std::atomic<bool> reader_gone = false;
  OutputStage output(std::move(outputs), [&](std::span<const MapRecord> maps) {
    if (reader_gone) return;
    progress.hide();
    const auto text_of = [&](const MapRecord& map) {
      if (console.verbose) return to_verbose_text(map, request.label_type, console.color);
      const bool is_first = &map == &maps.front();
      return is_first ? to_text(maps, request.label_type, console.color) : std::string();
    };
    try {
      for (const MapRecord& map : maps) records.write(to_json(map), text_of(map));
    } catch (const Error&) {
      if (!HeldPipeSignal::reader_is_gone()) throw;
      reader_gone = true;
    }
  });
  Visualization visualization(std::move(visualization_options), std::move(classes), labels,
                              explainer, other ? &*other : nullptr, output, progress);
  pipeline.remark_on_size = remark_on_large_sizes(source);
  pipeline.notice = [&](const std::string& text) {
    progress.hide();
    console.note(text);
  };

  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  const NameOrder order = request.frames_as_video ? NameOrder::numbers : NameOrder::bytes;
  InputStream inputs(words, request.recursive, standard_input, order);
  const auto next_input = [&] {
    if (!request.transform.views) return inputs.next();
    return without_video(inputs.next(),
                         "--views " + std::string(image::views_name(pipeline.transform)));
  };
  const PipelineTiming timing =
      run_pipeline(next_input, classifier.engine(), pipeline, [&](PipelineResult& result) {
        const bool failed = result.error.has_value();
        visualization.add(result);
        progress.advance();
        count.begin();
        return !reader_gone && !(run.fail_fast && (failed || output.failed() > 0));
      });
  visualization.finish();
  output.finish();
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  if (reader_gone) HeldPipeSignal::end_quietly();
  records.finish();
  console.detail(timing.describe(model_threads(run), pipeline.workers));
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (output.failed() > 0) return run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
