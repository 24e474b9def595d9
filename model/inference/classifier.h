// A model ready to classify, behind one call: the inference plan where there is one for the device
// and precision, else the modules.
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/inference/engine.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hydrascope::model {

class Classifier final : public inference::Engine {
 public:
  /// Builds `config`, loads `weights` into it and moves it to the device. Weights that are not loaded
  /// are random: seed the generator first.
  Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
             const inference::InferenceOptions& options, const checkpoint::HeadOptions& head = {});
  /// With random weights, for measurements.
  Classifier(const VitConfig& config, const inference::InferenceOptions& options);
  Classifier(Classifier&&) noexcept;
  Classifier& operator=(Classifier&&) noexcept;
  ~Classifier() override;

  /// images: float32 (B, 3, H, W) on the CPU or the model's device, normalised, H and W multiples
  /// of patch_size. Returns float32 (B, num_classes) on the CPU. Throws Error(out_of_memory) when
  /// the device says so.
  at::Tensor logits(const at::Tensor& images);
  /// The same in two halves, so that a GPU computes while the caller prepares the next batch.
  void submit(const inference::ImageBatch& batch) override;
  at::Tensor collect() override;
  [[nodiscard]] at::Tensor take_traced_tokens() override;
  [[nodiscard]] int under_way() const noexcept override;
  [[nodiscard]] inference::EngineLimits limits() const noexcept override;
  [[nodiscard]] inference::EngineDescription describe() const override;
  bool collect_stage_times(inference::StageTimes* times) noexcept override;

  [[nodiscard]] const inference::InferenceOptions& options() const noexcept;
  /// Everything that changes answers besides the precision, for records: "calibration" -> "bundled".
  [[nodiscard]] std::map<std::string, std::string> approximations() const;
  /// The cost of one image of that size: 1e9 FLOPs.
  [[nodiscard]] double gflops_per_image(std::int64_t height, std::int64_t width) const;
  /// The report of weights that were not loaded.
  [[nodiscard]] const checkpoint::LoadReport& load_report() const noexcept;

 private:
  void make_engine(const inference::EngineSource& source);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model
