// hydrascope visualize: which tokens a prediction rests on, drawn over the pictures and videos.
#include "app/command.h"
#include "app/maps/map_choice.h"
#include "app/maps/map_record.h"
#include "app/options/written_files.h"
#include "app/pictures/inputs.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/progress.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "app/session/session.h"
#include "app/tasks/features.h"
#include "app/tasks/visualization.h"
#include "app/visualize/output_stage.h"
#include "app/visualize/visualize_options.h"
#include "kernels/error.h"
#include "model/registry/memories.h"
#include "viz/picture/encode.h"

#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace hydrascope::app {
namespace {

/// The names of two models on a page, with the attention if the names are the same.
std::vector<std::string> names_of_two(const Session& first, const Session& second) {
  const ModelSource& one = first.source();
  const ModelSource& other = second.source();
  if (one.name != other.name) return {one.name, other.name};
  std::vector<std::string> names;
  for (const ModelSource* model : {&one, &other})
    names.push_back(model->name + ", " + model::to_text(model->config.attention));
  return names;
}

/// Fills in what the page says of a session that is loaded; `other` may be null.
void add_facts(viz::ReportOptions& page, const Session& session, const Session* other) {
  const InputRecord& run = session.facts();
  page.title = "hydrascope: what " + session.source().name + " looks at";
  page.facts = {{"model", session.source().name},
                {"attention", run.attention},
                {"device", run.device},
                {"precision", run.precision},
                {"transform", image::describe(session.transform())}};
  if (other == nullptr) return;
  page.models = names_of_two(session, *other);
  page.facts.emplace_back("against", page.models[1]);
}

/// Maps of one input, at most.
std::size_t most_maps(const MapSelection& selection, const ClassChoice& classes) {
  std::int64_t count = 0;
  for (const MapChoice& choice : selection.maps)
    count += model::explain::entry_of(choice.method).of_class ? classes.most_classes() : 1;
  return static_cast<std::size_t>(count);
}

/// The input of a run whose output is the file of one heatmap; nothing where a list ends before its first
/// path. Throws Error(invalid_argument) for a video and for several inputs.
std::optional<Input> only_input(InputStream& inputs, const std::filesystem::path& output) {
  const std::string place = "`output` " + output.string();
  const auto refuse = [&](const char* what) {
    throw UsageError(what, place, "`output` FOLDER takes all heatmaps");
  };
  std::optional<Input> first = inputs.next();
  if (first && first->is_video) refuse("is the file of one picture, and the input is a video");
  if (first && inputs.next()) refuse("is the file of one picture, and there are several inputs");
  if (first && !first->memory) refuse_input(output, place, first->path);
  return first;
}

}  // namespace

int run_visualize(const ParsedOptions& options) {
  const VisualizeRequest request = visualize_request(options);
  const Console& console = request.console;
  const std::unique_ptr<Session> session = open_session(request, request.vote);
  if (!request.vote.store.empty() && !session->source().class_vectors_of)
    throw UsageError("holds other features than the classifier is given, and no map explains them",
                     "`knn` " + request.vote.store, "`features` pooled");
  const std::vector<std::string>& words = request.words;
  require_inputs(words, "visualize");
  ClassChoice classes(request.classes, request.topk, session->labels());
  MapWords map_choice = request.maps;
  map_choice.of_class = !classes.is_default();
  map_choice.remembers =
      !model::choose_memories(request.run.memory, request.run.memory_options, session->config())
           .empty();
  const MapSelection selection = choose_maps(session->config(), map_choice);
  PipelineOptions& pipeline = session->pipeline();
  OutputOptions outputs = heatmap_outputs(request, most_maps(selection, classes), pipeline.workers);
  InputStream inputs(words, request.recursive);
  std::optional<Input> first;
  if (!outputs.file.empty()) first = only_input(inputs, outputs.file);
  std::unique_ptr<Session> other;
  MapSelection others;
  if (request.against) {
    other = Session::open_against(*request.against, request.transform, request.run, *session);
    others = maps_at_hand(other->config(), map_choice);
  }
  session->announce();
  for (const std::string& note : selection.notes) session->note(note);

  const std::jthread encoders = viz::prepare_to_encode();
  session->load({selection.maps, map_choice.mapless});
  if (other) {
    other->announce();
    for (const std::string& note : others.notes) other->note(note);
    other->load({others.maps, map_choice.mapless});
  }
  add_facts(outputs.report, *session, other.get());
  pipeline.keep_picture = true;
  pipeline.video_stride = request.video_stride;

  VisualizationOptions visualization_options;
  visualization_options.folder = outputs.folder;
  visualization_options.endings = {".heatmap.mp4", ".map.npy"};
  for (const viz::ImageFormat format : kFormatsBySize)
    visualization_options.endings.push_back(".heatmap" + std::string(viz::extension(format)));
  visualization_options.words = words;
  visualization_options.recursive = request.recursive;
  visualization_options.figure = outputs.figure;
  visualization_options.save_raw = outputs.save_raw;

  RecordStream records(request.output.format, std::cout, map_columns(map_choice.remembers));
  Progress progress("visualize", std::nullopt, console.progress);
  InputCount count(inputs, progress);
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
  Visualization visualization(std::move(visualization_options), std::move(classes), *session,
                              other.get(), output, progress);

  const auto next_input = [&] {
    return first ? std::exchange(first, std::nullopt) : inputs.next();
  };
  const PipelineTiming timing = session->run(next_input, [&](PipelineResult& result) {
    const bool failed = result.error.has_value();
    if (result.frame == 0) count.add_video(result.video);
    visualization.add(result);
    progress.advance();
    return !reader_gone && !(request.run.fail_fast && (failed || output.failed() > 0));
  });
  visualization.finish();
  output.finish();
  progress.finish();
  for (const std::string& note : inputs.passed().notes()) console.note(note);
  if (reader_gone) HeldPipeSignal::end_quietly();
  records.finish();
  session->describe(timing);
  if (stop_requested()) return exit_code_after_stop(kExitOk);
  if (output.failed() > 0) return request.run.fail_fast ? kExitFailed : kExitSomeInputsFailed;
  return kExitOk;
}

}  // namespace hydrascope::app
