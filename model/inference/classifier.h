// A model ready to classify: its weights loaded, and the engine that runs it. The engine is the
// inference plan if there is one for the device and precision, else the modules.
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/inference/engine.h"
#include "model/inference/feature_engine.h"
#include "model/inference/inference_options.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hydrascope::model {

class Classifier {
 public:
  /// Loads `weights` into a model of that configuration and puts it on the device. Weights that are
  /// not loaded are random: seed the generator first. Throws Error(out_of_memory) when the device says
  /// so. With an `answer`, whose configuration is the weights', `config` has the answer's classes.
  Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
             const inference::InferenceOptions& options, const checkpoint::HeadOptions& head = {},
             const FeatureAnswer* answer = nullptr);
  /// With random weights, for measurements.
  Classifier(const VitConfig& config, const inference::InferenceOptions& options);

  [[nodiscard]] inference::Engine& engine() const noexcept { return *engine_; }
  /// The configuration that was asked for.
  [[nodiscard]] const VitConfig& config() const noexcept { return config_; }
  [[nodiscard]] const inference::InferenceOptions& options() const noexcept {
    return engine_->options();
  }
  /// Everything that changes answers besides the precision, for records: "calibration" -> "bundled".
  [[nodiscard]] std::map<std::string, std::string> approximations() const;
  /// The cost of one image of that size: 1e9 FLOPs.
  [[nodiscard]] double gflops_per_image(std::int64_t height, std::int64_t width) const;
  /// The report of weights that were not loaded.
  [[nodiscard]] const checkpoint::LoadReport& load_report() const noexcept { return report_; }

 private:
  VitConfig config_;
  checkpoint::LoadReport report_;
  std::unique_ptr<inference::Engine> engine_;
};

}  // namespace hydrascope::model
