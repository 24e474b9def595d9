#include "app/evaluate/evaluate_options.h"

#include "app/console.h"
#include "app/evaluate/diagnostics_report.h"
#include "app/option_builders.h"
#include "app/option_table.h"
#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace hydrascope::app {
namespace {

std::vector<std::string> precision_choices() {
  std::vector<Option> options = runtime_options();
  return std::ranges::find(options, "precision", &Option::name)->choices;
}

}  // namespace

std::vector<Option> labelled_set_options() {
  std::vector<Option> labels = in_group(
      "Labels",
      {{.name = "labels-csv",
        .placeholder = "FILE",
        .help = "labels of a flat folder: a header with file and class_index (or synset) columns; "
                "a column real_labels holds several valid ones a picture, with blanks between them",
        .completes_files = true},
       {.name = "real-labels",
        .placeholder = "FILE.json",
        .help = "lists of valid class indices, one a picture in the set's order (ImageNet's "
                "validation pictures by their number): the share whose prediction is valid, "
                "top1_real, over the pictures that have a valid one",
        .completes_files = true},
       {.name = "no-labels",
        .kind = ValueKind::flag,
        .help = "the pictures have none: agreement and diagnostics alone; so is a folder without "
                "folders where these are asked for"}});
  labels.push_back({.name = "limit-images",
                    .kind = ValueKind::integer,
                    .placeholder = "N",
                    .help = "only so many pictures, evenly spread over the set",
                    .default_note = "all",
                    .minimum = 1,
                    .group = "Input"});
  return labels;
}

std::vector<Option> score_options() {
  std::vector<Option> options =
      in_group("Output", {{.name = "require-top1",
                           .kind = ValueKind::number,
                           .placeholder = "PCT",
                           .help = "exit with 4 when top-1 is below"},
                          {.name = "save-logits",
                           .placeholder = "FILE.npy",
                           .help = "also write float32 logits (images, classes)",
                           .completes_files = true}});
  const std::vector<Option> tables = in_group(
      "Scores",
      {{.name = "per-class",
        .placeholder = "FILE|-",
        .help = "a row a class: pictures, right ones, top-1, top-5, the class it is most often "
                "taken for; - puts it beside the summary",
        .completes_files = true},
       {.name = "confusions",
        .kind = ValueKind::integer,
        .placeholder = "N",
        .help = "the N most frequent wrong pairs of classes, beside the summary",
        .minimum = 1},
       {.name = "save-errors",
        .placeholder = "FOLDER",
        .help = "contact sheets of the misclassified pictures, worst first (by the probability of "
                "the wrong class), and errors.csv",
        .completes_files = true},
       {.name = "most-errors",
        .kind = ValueKind::integer,
        .placeholder = "N",
        .help = "at most so many pictures on the sheets",
        .default_value = "100",
        .minimum = 1}});
  options.insert(options.end(), tables.begin(), tables.end());
  return options;
}

std::vector<Option> agreement_options() {
  return in_group(
      "Agreement",
      {{.name = "against",
        .placeholder = "NAME|FILE",
        .help = "a reference model over the same pictures, with its own transform: shares of equal "
                "top-1, KL(reference || model), differences of logits, who is right where, the "
                "difference of top-1 with its standard error, and the exact McNemar test; needs no "
                "labels",
        .completes_files = true},
       {.name = "against-attn",
        .placeholder = "SPEC",
        .help = "the reference's attention, as --attn; without --against that of the same weights"},
       {.name = "against-attn-opt",
        .placeholder = "MECHANISM.KEY=VALUE",
        .help = "a setting of it, as --attn-opt",
        .repeatable = true},
       {.name = "against-precision",
        .help = "the reference's precision",
        .default_note = "the model's",
        .choices = precision_choices()}});
}

std::vector<Option> diagnostics_options() {
  return in_group(
      "Diagnostics",
      {{.name = "diagnostics",
        .placeholder = "FILE.json|FILE.html|-",
        .help = "attention by layer and head: entropy of the rows, divergence from softmax's and "
                "cosine of the outputs, monotonicity, Hydra's global vector, and with --against "
                "the distance from its layers; a table (also .csv, .tsv, .txt) or a page with "
                "charts; - puts the table beside the summary",
        .completes_files = true},
       {.name = "diagnostics-images",
        .kind = ValueKind::integer,
        .placeholder = "N",
        .help = "over so many pictures, evenly spread over the set",
        .default_value = "32",
        .minimum = 1}});
}

bool compares_models(const ParsedOptions& options) {
  return options.given("against") || options.given("against-attn") ||
         options.given("against-attn-opt") || options.given("against-precision");
}

void check_evaluate_options(const ParsedOptions& options, Format format) {
  for (const auto& [name, needed] :
       {std::pair("most-errors", "save-errors"), std::pair("diagnostics-images", "diagnostics")}) {
    if (options.given(name) && !options.given(needed))
      throw Error(ErrorCode::invalid_argument, "works with --" + std::string(needed) + " only",
                  options.origin(name));
  }
  std::map<std::filesystem::path, std::string> files;
  for (const char* name : {"output", "save-logits", "per-class", "diagnostics"}) {
    const std::string& file = options.text(name);
    if (file.empty() || file == "-") continue;
    check_output_file(file, options.origin(name));
    const auto [other, is_new] =
        files.emplace(std::filesystem::absolute(file).lexically_normal(), options.origin(name));
    if (!is_new)
      throw Error(ErrorCode::invalid_argument, "names the same file as " + other->second,
                  options.origin(name) + " " + file);
  }
  if (options.given("diagnostics")) check_diagnostics_file(options.text("diagnostics"));
  if (options.given("diagnostics") && options.given("keep-tokens"))
    throw Error(ErrorCode::invalid_argument, "diagnostics need all tokens",
                "--diagnostics with --keep-tokens");
  if (format != Format::csv && format != Format::tsv) return;
  std::vector<std::string> tables;
  for (const char* name : {"faithfulness", "confusions", "per-class", "diagnostics"}) {
    const bool is_file = name == std::string("per-class") || name == std::string("diagnostics");
    if (options.given(name) && !(is_file && options.text(name) != "-"))
      tables.push_back("--" + std::string(name));
  }
  if (tables.size() > 1)
    throw Error(ErrorCode::invalid_argument, "csv and tsv hold one table",
                join_words(tables, ", ", " and "), "--format json holds them all");
}

}  // namespace hydrascope::app
