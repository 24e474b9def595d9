// A model ready to classify, behind one call: the inference plan where there is one for the device
// and precision, else the modules.
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/device.h"
#include "model/inference/batch_model.h"
#include "model/inference/stage_times.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model {

struct ClassifierOptions {
  c10::Device device{c10::kCPU};
  Precision precision;
  Kernels kernels = Kernels::automatic;
  bool deterministic = false;
  checkpoint::HeadOptions head;
  double keep_tokens = 1;  ///< as inference::PlanOptions
  std::optional<std::int64_t> keep_layer;
  /// For int8: images (B, 3, H, W), normalised, that show how large the channels get; may be
  /// undefined.
  at::Tensor calibration;
  std::string calibration_source;  ///< what they are, for records
  /// Blocks whose incoming tokens `take_traced_tokens` gives, ascending; not with `keep_tokens`.
  std::vector<std::int64_t> trace_layers;
};

class Classifier : public inference::BatchModel {
 public:
  /// Builds `config`, loads `weights` into it and moves it to the device. What is not loaded is
  /// random: seed the generator first.
  Classifier(const VitConfig& config, const checkpoint::Checkpoint& weights,
             const ClassifierOptions& options);
  /// With random weights, for measurements.
  Classifier(const VitConfig& config, const ClassifierOptions& options);
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
  [[nodiscard]] int most_under_way() const noexcept override;
  [[nodiscard]] bool takes_bytes() const noexcept override;
  [[nodiscard]] std::int64_t enough_tokens() const noexcept override;

  [[nodiscard]] const VitConfig& config() const noexcept;
  [[nodiscard]] const ClassifierOptions& options() const noexcept;
  /// What runs: "fused", "fused+modules" (the plan; some mechanisms have no kernels), "modules" or
  /// "reference"; on a GPU after it what LibTorch runs softmax layers on, once that is chosen:
  /// "fused+softmax:cudnn".
  [[nodiscard]] std::string kernels() const;
  /// What changes answers besides the precision, for records: "keep_tokens" -> "0.5", "keep_layer"
  /// -> "3", "calibration" -> "bundled".
  [[nodiscard]] std::map<std::string, std::string> approximations() const;
  /// What one image of that size costs, without what --keep-tokens drops: 1e9 FLOPs.
  [[nodiscard]] double gflops_per_image(std::int64_t height, std::int64_t width) const;
  /// Seconds of all threads by stage since the first call with it on; false without a plan.
  bool collect_stage_times(inference::StageTimes* times) noexcept;
  /// What was not loaded.
  [[nodiscard]] const checkpoint::LoadReport& load_report() const noexcept;
  [[nodiscard]] std::int64_t num_tokens(std::int64_t height,
                                        std::int64_t width) const noexcept override;

 private:
  /// Compiles the filled model, or moves it to its device.
  /// `fill_block` loads a block's weights.
  void make_ready(const std::function<void(std::int64_t layer)>& fill_block);
  void compile(const std::function<void(std::int64_t layer)>& fill_block);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model
