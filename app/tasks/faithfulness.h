// The computation of `faithfulness`: the maps of every picture, measured on the model that they explain.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/faithfulness_report.h"
#include "app/session/session.h"
#include "model/explain/explainer.h"
#include "model/explain/faithfulness.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The request by the options, checked against the model before any weight is loaded.
struct FaithfulnessPlan {
  std::vector<model::explain::Request> requests;  ///< the maps but random and centre
  model::explain::FaithfulnessOptions options;
  std::int64_t layer = 0;
  std::uint64_t seed = 0;

  [[nodiscard]] std::vector<std::int64_t> traced_layers(const model::VitConfig& config) const;
};

/// Throws Error(invalid_argument): a method that the model does not support, a layer that it does
/// not have, options that do not go together.
FaithfulnessPlan plan_faithfulness(const FaithfulnessRequest& request, std::uint64_t seed,
                                   const model::VitConfig& config);

class FaithfulnessRun {
 public:
  /// `session`, which was loaded for the plan's layers and keeps the model's input, must outlive it.
  FaithfulnessRun(FaithfulnessPlan plan, Session& session);

  /// Pictures to hand over at a time: what the pipeline keeps meanwhile is bounded by them.
  [[nodiscard]] std::size_t pictures_at_once() const;

  /// Measures all maps of a picture that was classified; the model must have nothing under way. `index` is the picture's in its set and seeds its random maps. False, and the picture is
  /// left out, when a stop was requested meanwhile.
  bool add(const PipelineResult& result, std::size_t index);

  [[nodiscard]] const FaithfulnessReport& report() const noexcept { return report_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> make_maps(const PipelineResult& result,
                                                  std::int64_t class_index, std::size_t index);
  void keep_note(const model::explain::Explanation& explanation);

  FaithfulnessPlan plan_;
  Session& session_;
  std::optional<model::explain::Explainer> explainer_;  ///< none for random and centre alone
  FaithfulnessReport report_;
};

}  // namespace hydrascope::app
