#include "app/evaluate/evaluate_options.h"

#include "app/evaluate/faithfulness_report.h"
#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/pictures/inputs.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "model/registry/map_methods.h"
#include "model/registry/measures.h"

#include <string>
#include <utility>

namespace hydrascope::app {
namespace {

namespace explain = model::explain;

std::vector<std::string> precision_choices() {
  std::vector<Option> options = runtime_options();
  return row_of(options, &RunRequest::precision).choices;
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
  if (!jobs.scores) return "";
  for (const Field& field : std::initializer_list<Field>{
           &ScoreRequest::required_top1, &ScoreRequest::per_class, &ScoreRequest::html})
    if (options.given(field)) return options[field].origin;
  return "";
}

}  // namespace

const GivenOption* names_another_model(const ParsedOptions& options) {
  for (const Field& field : std::initializer_list<Field>{
           &AgainstRequest::word, &AgainstRequest::attention, &AgainstRequest::attention_options})
    if (options.given(field)) return &options[field];
  return nullptr;
}

ReferenceRequest reference_request(const ParsedOptions& options, const ModelRequest& first,
                                   RunRequest run) {
  AgainstRequest against;
  options.fill(against);
  ReferenceRequest reference{first, std::move(run)};
  ModelRequest& model = reference.model;
  if (options.given(&AgainstRequest::word)) model = {.word = against.word};
  if (options.given(&AgainstRequest::attention)) {
    model.attention = against.attention;
    model.attention_options.clear();
  }
  if (options.given(&AgainstRequest::attention_options))
    model.attention_options = against.attention_options;
  if (options.given(&AgainstRequest::precision)) reference.run.precision = against.precision;
  if (reference.run.precision != "int8") reference.run.calibration.clear();
  return reference;
}

bool compares_models(const ParsedOptions& options) {
  return names_another_model(options) != nullptr || options.given(&AgainstRequest::precision);
}

std::vector<Option> set_runtime_options() {
  std::vector<Option> options = runtime_options();
  row_of(options, &RunRequest::precision).default_value = "float32";
  return options;
}

std::vector<Option> labelled_set_options() {
  std::vector<Option> labels = in_group(
      "Labels", Role::source,
      {text("labels-csv",
            "labels of the pictures: a table with columns file and label (id, name or index)",
            into(&SetRequest::labels_csv), takes("FILE"), reads),
       flag("no-labels", "ignore the names of folders: the pictures have no labels",
            into(&SetRequest::ignores_labels), role(Role::source), keyed("run.no-labels"))});
  labels.push_back(integer("limit-images", "number of used pictures, evenly spread over the set",
                           into(&SetRequest::limit), otherwise("all"), at_least(1), in("Input"),
                           role(Role::task)));
  return labels;
}

std::vector<Option> score_options() {
  return in_group(
      "Scores", Role::report,
      {number("require-top1", "least top-1 in percent; exit code 4 below it",
              into(&ScoreRequest::required_top1), takes("PCT")),
       text("per-class", "file of the accuracy by class; - prints it after the summary",
            into(&ScoreRequest::per_class), takes("FILE|-"), written),
       text("html", "also write one page: scores, calibration, worst classes, surest errors",
            into(&ScoreRequest::html), takes("FILE.html"), written),
       number("calibrate-exit",
              "find the exit threshold at which at most this share of answers differs; at 95 % "
              "confidence, from the whole model's answers, without labels",
              into(&ScoreRequest::exit_delta), takes("DELTA"), at_least(1e-4), at_most(0.5)),
       text("save-logits", "write the logits, float32 (pictures, classes)",
            into(&ScoreRequest::save_logits), takes("FILE.npy"), written)});
}

std::vector<Option> layer_reference_options() {
  return in_group(
      "Comparison", Role::model,
      {text("against", "the other model, with its own transform", into(&AgainstRequest::word),
            takes("NAME|FILE"), otherwise("the model itself"), completes_files),
       text("against-attn", "attention of the other model, as --attn takes it",
            into(&AgainstRequest::attention), takes("SPEC")),
       text("against-attn-opt",
            "setting of the other model's attention, as --set attn-opt= takes it",
            into(&AgainstRequest::attention_options), takes("MECHANISM[:LAYERS].KEY=VALUE"),
            repeatable, keyed("model.against-attn-opt"))});
}

std::vector<Option> agreement_options() {
  std::vector<Option> options = layer_reference_options();
  options.push_back(text("against-precision", "number format of the other model's computation",
                         into(&AgainstRequest::precision), otherwise("as --precision"),
                         one_of(precision_choices()), in("Comparison"), role(Role::model)));
  return options;
}

std::vector<Option> faithfulness_options() {
  return in_group(
      "Faithfulness", Role::task,
      {text("measure", "measures of the maps", into(&FaithfulnessRequest::measures),
            takes("NAME,..."), by_default("deletion,insertion"),
            one_of(names_of(explain::measures())), comma_list),
       text("method", "measured methods, beside random maps and the centre",
            into(&FaithfulnessRequest::methods), takes("NAME,..."),
            otherwise("all that the layer supports"), one_of(map_names()), comma_list),
       integer("steps", "steps of deletion and insertion, each a forward pass per picture and map",
               into(&FaithfulnessRequest::steps), by_default("14"), at_least(1),
               keyed("measure.steps")),
       text("layer", "layer that is explained, from 0", into(&FaithfulnessRequest::layer),
            takes("last|N"), by_default("last"))});
}

SetRequest set_request(const ParsedOptions& options, const SetJobs& jobs) {
  SetRequest request;
  options.fill(request);
  request.command = jobs.command;
  request.words = input_words(options);
  if (const GivenOption* recursive = options.find(&PicturesRequest::recursive))
    take(*recursive, request.recursive);
  request.may_lack_labels = jobs.may_lack_labels();
  request.needs_labels = option_that_needs_labels(options, jobs);
  return request;
}

EvaluateRequest evaluate_request(const ParsedOptions& options, const SetJobs& jobs) {
  EvaluateRequest request{pictures_request(options, AutoExif::as_stored)};
  options.fill(request, request.score, request.faithfulness);
  request.jobs = jobs;
  request.jobs.calibrates_exit = request.score.exit_delta.has_value();
  request.set = set_request(options, request.jobs);
  if (jobs.compares || (jobs.diagnoses && names_another_model(options) != nullptr)) {
    request.reference = reference_request(options, request.model, request.run);
    // The first model runs without a calibration that is the reference's alone.
    if (options.is(&AgainstRequest::precision, "int8") && request.run.precision != "int8")
      request.run.calibration.clear();
  }
  if (jobs.measures_maps)
    request.faithfulness.methods_origin = options[&FaithfulnessRequest::methods].origin;
  return request;
}

void check_evaluate_options(const ParsedOptions& options) {
  for (const Field& field :
       std::initializer_list<Field>{&OutputRequest::file, &ScoreRequest::save_logits,
                                    &ScoreRequest::per_class, &ScoreRequest::html}) {
    const std::string& file = options[field].text();
    if (file.empty() || file == "-") continue;
    check_output_file(file, options[field].origin,
                      field == &ScoreRequest::save_logits ? FileKind::array : FileKind::text);
  }
  const GivenOption& page = options[&ScoreRequest::html];
  if (!page.text().empty()) check_extension(page.text(), page.origin, {".html"});
}

}  // namespace hydrascope::app
