#include "app/evaluate/evaluate_options.h"

#include "app/evaluate/faithfulness_report.h"
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/pictures/inputs.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "model/registry/map_methods.h"
#include "model/registry/measures.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace hydrascope::app {
namespace {

namespace explain = model::explain;

std::vector<std::string> precision_choices() {
  std::vector<Option> options = runtime_options();
  return named(options, "precision").choices;
}

template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> map_names() {
  std::vector<std::string> names = names_of(explain::methods());
  names.emplace_back(kRandomMap);
  names.emplace_back(kCenterMap);
  return names;
}

/// The option that cannot do without labels, as it was written; "" where there is none.
std::string option_that_needs_labels(const ParsedOptions& options, const SetJobs& jobs) {
  if (jobs.scores) {
    for (const char* name : {"require-top1", "per-class", "confusions", "save-errors", "html"})
      if (options.given(name)) return options.origin(name);
  }
  if (jobs.measures_maps) {
    for (const std::string& measure : options.texts("measure"))
      if (measure == "positive" || measure == "negative")
        return options.origin("measure") + " " + measure;
    if (options.text("class") == "target") return options.origin("class") + " target";
  }
  return "";
}

ScoreRequest score_request(const OptionReader& read) {
  ScoreRequest request;
  read.take("save-logits", request.save_logits);
  read.take("save-errors", request.save_errors);
  read.take("html", request.html);
  read.take("per-class", request.per_class);
  read.take("confusions", request.confusions);
  read.take("require-top1", request.required_top1);
  return request;
}

}  // namespace

bool names_another_model(const ParsedOptions& options) {
  const OptionReader read(options);
  return read.given("against") || read.given("against-attn") || read.given("against-attn-opt");
}

ReferenceRequest reference_request(const ParsedOptions& options, const ModelRequest& first,
                                   RunRequest run) {
  const OptionReader read(options);
  ReferenceRequest reference{first, std::move(run)};
  ModelRequest& model = reference.model;
  if (read.given("against")) {
    model = {};
    read.take("against", model.word);
  }
  if (read.given("against-attn")) {
    read.take("against-attn", model.attention);
    model.attention_options.clear();
  }
  if (read.given("against-attn-opt")) read.take("against-attn-opt", model.attention_options);
  if (read.given("against-precision")) read.take("against-precision", reference.run.precision);
  if (reference.run.precision != "int8") reference.run.calibration.clear();
  return reference;
}

bool compares_models(const ParsedOptions& options) {
  return names_another_model(options) || OptionReader(options).given("against-precision");
}

std::vector<Option> set_runtime_options() {
  std::vector<Option> options = runtime_options();
  named(options, "precision").help = "number format (auto: float32 on the CPU, bfloat16 on a GPU)";
  return options;
}

std::vector<Option> labelled_set_options() {
  std::vector<Option> labels = in_group(
      "Labels", Role::source,
      {text("labels-csv",
            "labels of the pictures: a table with columns file and label (id, name or index)",
            takes("FILE"), completes_files),
       flag("no-labels", "ignore the names of folders: the pictures have no labels",
            role(Role::source))});
  labels.push_back(integer("limit-images", "number of used pictures, evenly spread over the set",
                           otherwise("all"), at_least(1), in("Input"), role(Role::task)));
  return labels;
}

std::vector<Option> score_options() {
  return in_group(
      "Scores", Role::report,
      {text("real-labels",
            "file of the valid classes of each picture (ImageNet ReaL), for a second score; a "
            "column real_labels of --labels-csv does the same",
            takes("FILE.json"), completes_files),
       number("require-top1", "least top-1 in percent; exit code 4 below it", takes("PCT")),
       text("per-class", "file of the accuracy by class; - prints it after the summary",
            takes("FILE|-"), written),
       integer("confusions", "number of printed confusions of two classes, the most frequent first",
               at_least(1)),
       text("html", "also write one page: scores, calibration, worst classes, surest errors",
            takes("FILE.html"), written),
       text("save-errors",
            "folder of contact sheets of the 100 worst wrong answers, and errors.csv",
            takes("FOLDER"), written),
       text("save-logits", "write the logits, float32 (pictures, classes)", takes("FILE.npy"),
            written)});
}

std::vector<Option> layer_reference_options() {
  return in_group(
      "Comparison", Role::model,
      {text("against", "the other model, with its own transform", takes("NAME|FILE"),
            otherwise("the model itself"), completes_files),
       text("against-attn", "attention of the other model, as --attn takes it", takes("SPEC")),
       text("against-attn-opt", "setting of the other model's attention, as --attn-opt takes it",
            takes("MECHANISM[:LAYERS].KEY=VALUE"), repeatable)});
}

std::vector<Option> agreement_options() {
  std::vector<Option> options = layer_reference_options();
  options.push_back(text("against-precision", "number format of the other model's computation",
                         otherwise("as --precision"), one_of(precision_choices()), in("Comparison"),
                         role(Role::model)));
  return options;
}

std::vector<Option> faithfulness_options() {
  return in_group(
      "Faithfulness", Role::task,
      {text("measure", "measures of the maps; positive and negative need labels", takes("NAME,..."),
            by_default("deletion,insertion"), one_of(names_of(explain::measures())), comma_list),
       text("method", "measured methods, beside random maps and the centre", takes("NAME,..."),
            otherwise("all that the layer supports"), one_of(map_names()), comma_list),
       integer("steps", "steps of deletion and insertion, each a forward pass per picture and map",
               by_default("14"), at_least(1)),
       text("substrate", "replacement of a patch; insertion always starts from blur",
            otherwise("mean for deletion, black for positive and negative"),
            one_of(names_of(explain::substrates()))),
       text("class", "explained and watched class: the predicted one or the labelled one",
            by_default("pred"), one_of({"pred", "target"})),
       text("layer", "layer that is explained, from 0", takes("last|N"), by_default("last"))});
}

SetRequest set_request(const ParsedOptions& options, const SetJobs& jobs) {
  const OptionReader read(options);
  SetRequest request;
  request.command = jobs.command;
  request.words = input_words(options);
  read.take("recursive", request.recursive);
  request.may_lack_labels = jobs.may_lack_labels();
  read.take("no-labels", request.ignores_labels);
  read.take("labels-csv", request.labels_csv);
  if (jobs.scores) read.take("real-labels", request.real_labels);
  read.take("limit-images", request.limit);
  request.needs_labels = option_that_needs_labels(options, jobs);
  return request;
}

EvaluateRequest evaluate_request(const ParsedOptions& options, const SetJobs& jobs) {
  const OptionReader read(options);
  EvaluateRequest request{pictures_request(options, AutoExif::as_stored)};
  request.jobs = jobs;
  request.set = set_request(options, jobs);
  if (jobs.scores) request.score = score_request(read);
  if (jobs.compares || (jobs.diagnoses && names_another_model(options))) {
    request.reference = reference_request(options, request.model, request.run);
    // The first model runs without a calibration that is the reference's alone.
    if (read.is("against-precision", "int8") && request.run.precision != "int8")
      request.run.calibration.clear();
  }
  if (jobs.measures_maps) {
    FaithfulnessRequest& maps = request.faithfulness;
    read.take("measure", maps.measures);
    read.take("method", maps.methods);
    maps.methods_origin = options.origin("method");
    read.take("steps", maps.steps);
    read.take("substrate", maps.substrate);
    read.take("class", maps.of_class);
    read.take("layer", maps.layer);
  }
  if (jobs.diagnoses) read.take("limit-images", request.diagnosed_images);
  return request;
}

void check_evaluate_options(const ParsedOptions& options, Format format) {
  refuse_beside_views(options, {"save-logits"});
  for (const char* name : {"output", "save-logits", "per-class", "html"}) {
    const std::string& file = options.text(name);
    if (file.empty() || file == "-") continue;
    check_output_file(file, options.origin(name));
  }
  if (const std::string& page = options.text("html"); !page.empty())
    check_extension(page, options.origin("html"), {".html"});
  std::vector<std::string> tables;
  for (const char* name : {"confusions", "per-class"})
    if (options.given(name) && (name != std::string("per-class") || options.text(name) == "-"))
      tables.push_back(options.origin(name));
  check_one_table(format, tables);
}

}  // namespace hydrascope::app
