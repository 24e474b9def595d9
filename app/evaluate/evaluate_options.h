// The options that `evaluate`, `compare`, `faithfulness` and `diagnose` have beside the shared
// ones.
#pragma once

#include "app/options/requests.h"
#include "app/results/format.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The purpose of a pass over a set of pictures: each is a command.
struct SetJobs {
  std::string command;
  bool calibrates_exit = false;  ///< `evaluate --calibrate-exit`: needs no labels
  bool scores = false;         ///< `evaluate`: tables by class, files of logits and errors, checks
  bool compares = false;       ///< `compare`
  bool measures_maps = false;  ///< `faithfulness`
  bool diagnoses = false;      ///< `diagnose`

  /// Whether any of it says something about pictures without labels.
  [[nodiscard]] bool may_lack_labels() const {
    return compares || measures_maps || diagnoses || calibrates_exit;
  }
};
/// Whether they name another model, or other settings of one.
bool compares_models(const ParsedOptions& options);

/// How the model runs; their `--precision auto` measures nothing.
std::vector<Option> set_runtime_options();
std::vector<Option> labelled_set_options();  // labels-csv, no-labels, limit-images
std::vector<Option> score_options();  // require-top1, per-class, html, calibrate-exit, save-logits
std::vector<Option> layer_reference_options();  // against, against-attn, against-attn-opt
std::vector<Option> agreement_options();        // the same, against-precision
std::vector<Option> faithfulness_options();     // measure, method, steps, layer

/// The request for the other model, by its options.
struct AgainstRequest {
  std::string word;
  std::string attention;
  std::vector<std::string> attention_options;
  std::string precision;
};
/// The other model of a comparison. The options of the first model's weights and attention are that one's
/// alone where `--against` names another.
struct ReferenceRequest {
  ModelRequest model;
  RunRequest run;
};
/// Which pictures of a set are taken, with which labels.
struct SetRequest {
  std::string command;
  std::vector<std::string> words;
  bool recursive = false;
  bool may_lack_labels = false;  ///< the jobs say something about pictures without labels
  bool ignores_labels = false;   ///< `--set no-labels=on`
  std::string labels_csv;
  std::optional<std::size_t> limit;
  std::string needs_labels;  ///< the option that cannot do without labels, as it was written
};
/// The option that asks for another model, of which layers can be compared, too; nullptr: none does.
const GivenOption* names_another_model(const ParsedOptions& options);
/// `first` and `run` are the first model's.
ReferenceRequest reference_request(const ParsedOptions& options, const ModelRequest& first,
                                   RunRequest run);
SetRequest set_request(const ParsedOptions& options, const SetJobs& jobs);

/// The files that `evaluate` writes besides its summary.
struct ScoreRequest {
  std::string save_logits;
  std::string html;
  std::string per_class;  ///< a file, "-" or ""
  std::optional<double> required_top1;
  std::optional<double> exit_delta;  ///< `--calibrate-exit`
};

/// How maps are measured.
struct FaithfulnessRequest {
  std::vector<std::string> measures;
  std::vector<std::string> methods;  ///< none: all that the layer supports
  std::string methods_origin;        ///< what named them
  std::int64_t steps = 14;
  std::string layer;  ///< "last" or a number
};

struct EvaluateRequest : PicturesRequest {
  SetJobs jobs = {};
  SetRequest set = {};
  ScoreRequest score = {};
  std::optional<ReferenceRequest> reference = {};
  FaithfulnessRequest faithfulness = {};
  std::int64_t diagnosed_images = 32;
};
/// The request of any of these commands.
EvaluateRequest evaluate_request(const ParsedOptions& options, const SetJobs& jobs);

/// Throws Error(invalid_argument) for options of `evaluate` that do not go together.
void check_evaluate_options(const ParsedOptions& options);

}  // namespace hydrascope::app
