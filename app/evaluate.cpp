// hydrascope evaluate: top-1 and top-5 over a labelled set, scored over all of the model's classes,
// and how faithful maps are to the model.
#include "app/command.h"
#include "app/console.h"
#include "app/faithfulness.h"
#include "app/labelled_set.h"
#include "app/logits_file.h"
#include "app/model_source.h"
#include "app/pipeline.h"
#include "app/process_team.h"
#include "app/progress.h"
#include "app/report.h"
#include "app/signal_stop.h"
#include "kernels/error.h"

#include <ATen/ops/topk.h>

#include <algorithm>
#include <iostream>
#include <optional>

namespace hydrascope::app {
namespace {

LabelledSet read_set(const ParsedOptions& options, const image::Labels& labels) {
  std::vector<std::string> words = options.positionals();
  const std::vector<std::string>& named = options.texts("input");
  words.insert(words.end(), named.begin(), named.end());
  if (words.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "expected one folder, found " + std::to_string(words.size()), "evaluate");
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(words[0], ignored))
    throw Error(ErrorCode::invalid_argument, "no such folder", words[0]);
  if (const std::string& csv = options.text("labels-csv"); !csv.empty())
    return read_labels_csv(csv, words[0], labels);
  return read_folder_classes(words[0], labels);
}

/// `count` of the pictures, evenly spread: sets are sorted by class.
void thin_out(LabelledSet& set, std::size_t count) {
  const std::size_t all = set.pictures.size();
  if (count >= all) return;
  for (std::size_t i = 0; i < count; ++i) set.pictures[i] = set.pictures[i * all / count];
  set.pictures.resize(count);
}

/// Those that this process takes.
void take_share(LabelledSet& set, const ProcessTeam& team) {
  std::int64_t number = 0;
  std::erase_if(set.pictures, [&](const LabelledPicture&) { return !team.takes(number++); });
}

struct Score {
  std::int64_t images = 0;
  std::int64_t failed = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;

  void add(const at::Tensor& logits, std::int64_t target) {
    constexpr std::int64_t kTop = 5;
    const at::Tensor best = std::get<1>(at::topk(logits, std::min(kTop, logits.size(-1))));
    const std::int64_t* classes = best.const_data_ptr<std::int64_t>();
    ++images;
    if (classes[0] == target) ++top1;
    if (std::find(classes, classes + best.numel(), target) != classes + best.numel()) ++top5;
  }
  [[nodiscard]] double percent(std::int64_t count) const {
    return images == 0 ? 0.0 : 100.0 * static_cast<double>(count) / static_cast<double>(images);
  }
};

/// csv and tsv hold one table: with maps theirs, whose notes go to standard error.
void write_results(KeyValueReport summary, const FaithfulnessReport* faithfulness, Format format,
                   std::ostream& out, const Console& console) {
  if (faithfulness == nullptr) {
    summary.write(format, out);
  } else if (format == Format::csv || format == Format::tsv) {
    faithfulness->write_rows(format, out);
    for (const std::string& note : faithfulness->all_notes()) console.note("note: " + note);
  } else if (format == Format::text) {
    summary.write(format, out);
    faithfulness->write_text(out);
  } else {
    summary.add_json("faithfulness", faithfulness->json());
    summary.write(format, out);
  }
}

int run_evaluate(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  ProcessTeam team;
  team.refuse(options, {"faithfulness"});
  const Console console = team.is_first() ? Console(options) : Console(options).errors_only();
  const ModelSource source = open_model(options);
  const ResolvedTransform transform = resolve_transform(options, source);
  if (options.flag("print-transform") && options.positionals().empty() &&
      options.texts("input").empty()) {
    std::cout << transform.describe() << '\n';
    return kExitOk;
  }
  const image::Labels labels = resolve_labels(options, source);
  LabelledSet set = read_set(options, labels);
  if (options.given("limit-images"))
    thin_out(set, static_cast<std::size_t>(options.integer("limit-images")));
  for (const LabelledPicture& picture : set.pictures) {
    if (picture.target >= source.config.num_classes) {
      throw Error(ErrorCode::invalid_argument,
                  "class " + std::to_string(picture.target) + " of " + picture.file.string() +
                      " is beyond the model's " + std::to_string(source.config.num_classes),
                  "evaluate");
    }
  }
  take_share(set, team);
  for (const std::string& note : source.notes) console.note("note: " + note);
  if ((options.flag("print-transform") && team.is_first()) || console.verbose)
    console.note(transform.describe());
  console.detail("labels: " + set.rule + ", " + std::to_string(set.pictures.size()) + " pictures");
  std::optional<FaithfulnessPlan> plan =
      plan_faithfulness(options, source.config, transform.config);
  team.join(options);
  model::Classifier classifier = make_classifier(
      options, source, plan ? plan->traced_layers(source.config) : std::vector<std::int64_t>(),
      team.launch());

  // Published scores come from tools that ignore EXIF orientation.
  PipelineOptions pipeline =
      pipeline_options(options, transform, options.text("exif") == "apply", team.launch());
  pipeline.keep_input = plan.has_value();
  std::optional<FaithfulnessRun> faithfulness;
  if (plan) faithfulness.emplace(options, std::move(*plan), source, classifier, pipeline);

  std::optional<OutputFile> output;
  if (team.is_first()) output.emplace(options.text("output"));
  std::optional<LogitsFile> logits_file;
  if (options.given("save-logits"))
    logits_file.emplace(team, options.text("save-logits"), source.config.num_classes);
  const bool fail_fast = options.text("on-error") == "fail";
  Score score;
  std::size_t next = 0;
  std::size_t end = set.pictures.size();
  std::size_t reported = 0;
  Progress progress("evaluate", std::ssize(set.pictures), console.progress);
  const auto next_input = [&]() -> std::optional<Input> {
    if (next == end) return std::nullopt;
    const LabelledPicture& picture = set.pictures[next++];
    return Input{picture.file.string(), picture.file, false, std::nullopt, ""};
  };
  const auto report = [&](const PipelineResult& result) {
    const std::int64_t target = set.pictures[reported].target;
    // What a stop interrupts counts nowhere.
    if (faithfulness && !result.error && !faithfulness->add(result, target, reported)) return false;
    ++reported;
    if (result.error) {
      ++score.failed;
      progress.hide();
      std::cerr << "error: " + result.input.given + ": " + std::string(name(*result.error)) + ": " +
                       result.message + '\n';
      if (logits_file) logits_file->append_nan();
    } else {
      score.add(result.logits, target);
      if (logits_file) logits_file->append(result.logits);
    }
    progress.advance();
    return !(result.error && fail_fast);
  };
  pipeline.notice = [&](const std::string& text) {
    progress.hide();
    console.note(text);
  };
  PipelineTiming timing;
  if (faithfulness) {
    // The model has to be idle while maps are measured, so pictures come a few at a time.
    bool go_on = true;
    while (go_on && next < set.pictures.size() && !stop_requested()) {
      end = std::min(next + faithfulness->pictures_at_once(), set.pictures.size());
      std::vector<PipelineResult> results;
      timing += run_pipeline(next_input, classifier, pipeline, [&](const PipelineResult& result) {
        results.push_back(result);
        return true;
      });
      for (std::size_t i = 0; go_on && i < results.size(); ++i) go_on = report(results[i]);
    }
  } else {
    timing = run_pipeline(next_input, classifier, pipeline, report);
  }
  progress.finish();
  // This ends the other processes, too.
  if (team.has_others() && score.failed > 0 && fail_fast && !stop_requested()) return kExitFailed;
  if (logits_file) logits_file->close();
  team.sum({&score.images, &score.failed, &score.top1, &score.top5, &timing.images});
  timing.seconds = std::ranges::max(team.gather(timing.seconds));
  const double top1 = score.percent(score.top1);
  const bool is_too_low = options.given("require-top1") && top1 < options.number("require-top1");
  const auto exit_code = [&] {
    if (stop_requested()) return exit_code_after_stop(kExitOk);
    if (is_too_low) return static_cast<int>(kExitCheckFailed);
    if (score.failed > 0) return static_cast<int>(fail_fast ? kExitFailed : kExitSomeInputsFailed);
    return static_cast<int>(kExitOk);
  };
  if (!team.is_first()) {
    team.wait_for_all();
    return exit_code();
  }

  KeyValueReport summary;
  summary.add("schema", std::int64_t{1});
  summary.add("top1", top1, 2);
  summary.add("top5", score.percent(score.top5), 2);
  summary.add("images", score.images);
  summary.add("failed", score.failed);
  summary.add("model", source.name);
  summary.add("attention", model::to_text(source.config.attention));
  if (const auto values = model::attention_options(source.config.attention); !values.empty())
    summary.add_json("attention_options", json_object(values));
  summary.add("img_size", std::vector<std::int64_t>{transform.config.img_size.height,
                                                    transform.config.img_size.width});
  summary.add("native", transform.config.native);
  summary.add("crop_pct", transform.config.crop_pct, 3);
  summary.add("interpolation", std::string(image::name(transform.config.interpolation)));
  summary.add("precision", std::string(classifier.options().precision.name()));
  summary.add("device", classifier.options().device.str());
  summary.add("kernels", classifier.kernels());
  if (const auto values = classifier.approximations(); !values.empty())
    summary.add_json("approximations", json_object(values));
  summary.add("images_per_second",
              static_cast<double>(timing.images) / std::max(timing.seconds, 1e-9), 1);
  write_results(std::move(summary), faithfulness ? &faithfulness->report() : nullptr,
                choose_format(options.text("format"), options.text("output")), output->stream(),
                console);
  output->close();
  console.detail(timing.describe(model_threads(options, team.launch()), pipeline.workers));
  if (is_too_low && !stop_requested()) {
    std::cerr << "check failed: top-1 is below --require-top1 " << options.text("require-top1")
              << '\n';
  }
  team.wait_for_all();
  return exit_code();
}

}  // namespace

Command evaluate_command() {
  CommandSpec spec;
  spec.name = "evaluate";
  spec.aliases = {"eval", "validate"};
  spec.summary = "top-1/top-5 over a labelled set, faithfulness of maps";
  spec.positionals = "FOLDER";
  spec.options = join(
      {model_options(),
       input_options(),
       preprocessing_options(),
       runtime_options(),
       launch_options(),
       output_options(),
       label_options(),
       {{.name = "labels-csv",
         .placeholder = "FILE",
         .help = "labels of a flat folder: a header with file and class_index (or synset) columns",
         .group = "Labels",
         .completes_files = true},
        {.name = "limit-images",
         .kind = ValueKind::integer,
         .placeholder = "N",
         .help = "only so many pictures, evenly spread over the set",
         .default_note = "all",
         .minimum = 1,
         .group = "Input"},
        {.name = "require-top1",
         .kind = ValueKind::number,
         .placeholder = "PCT",
         .help = "exit with 4 when top-1 is below",
         .group = "Output"},
        {.name = "save-logits",
         .placeholder = "FILE.npy",
         .help = "also write float32 logits (images, classes)",
         .group = "Output",
         .completes_files = true}},
       faithfulness_options(),
       general_options()});
  spec.examples = {
      "hydrascope evaluate imagenet/val",
      "hydrascope evaluate pictures --labels-csv pictures/images.csv --format json",
      "hydrascope evaluate imagenet/val --img-size 384 --require-top1 70",
      "hydrascope evaluate imagenet/val --limit-images 500 --faithfulness deletion,insertion",
      "torchrun --nproc-per-node 8 --no-python hydrascope evaluate imagenet/val",
  };
  return {std::move(spec), run_evaluate};
}

}  // namespace hydrascope::app
