// The explanations of one image, from its traced tokens: requests that read the same block share
// its keys and values, requests of all tokens' gradients share one sweep.
#pragma once

#include "model/attention/memories/frame_memory.h"
#include "model/explain/explainer.h"
#include "model/explain/gradient_sweep.h"
#include "model/explain/mixer_inputs.h"
#include "model/explain/readout.h"
#include "model/registry/mechanisms.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hydrascope::model::explain {

/// The parts that a frame's own tokens and earlier frames' have in the output of a layer with a memory.
struct FrameParts {
  at::Tensor own;      ///< (G, H, N), of the frame's tokens
  at::Tensor earlier;  ///< (G, H), of all tokens that are kept
};

/// Filled modules and the layers that they are filled for, ascending.
struct ExplainedModel {
  VisionTransformer model{nullptr};
  std::vector<std::int64_t> layers;
  c10::Device device{c10::kCPU};
  std::vector<MemorySpec> memory;  ///< ExplainerOptions::memory
  /// The memories of the layers for the maps of each method; attention's have values of one.
  std::map<std::pair<std::int64_t, Method>, std::unique_ptr<FrameMemory>> frames;

  /// Null where the layer has no memory.
  [[nodiscard]] FrameMemory* frames_of(std::int64_t layer, Method method);
  /// The input of a block, (1, N, D) in float32 on the device, out of the traced tokens of all
  /// `layers`.
  [[nodiscard]] at::Tensor tokens_of(const at::Tensor& traced, std::int64_t layer) const;
};

/// The way of a method through the layers.
bool is_rollout(Method method);           ///< from one layer to the first
bool needs_all_gradients(Method method);  ///< from the last layer to the requested one

/// How each patch of an overview shares its heat along an axis: (count, reduced), columns sum to one. The
/// shares fall linearly from the patch's middle to its neighbours' (bilinear interpolation), so that the
/// overview's patches are no squares in the map.
at::Tensor overview_shares(std::int64_t count, std::int64_t reduced);

class ImageExplanations {
 public:
  /// All arguments must outlive this. Requests are checked.
  ImageExplanations(ExplainedModel& model, const at::Tensor& traced, const TokenGrid& grid,
                    std::span<const Request> requests, const BeforeStep& before_step);
  std::vector<Explanation> run();

 private:
  using Indices = std::vector<std::size_t>;  ///< of requests

  template <class Wanted>
  [[nodiscard]] Indices requests_where(Wanted wanted) const;
  [[nodiscard]] std::vector<std::int64_t> classes_of(const Indices& indices) const;
  /// Contributions to the readout's few rows; no other token has a gradient.
  [[nodiscard]] bool is_of_readout(const Request& request) const;
  [[nodiscard]] BlockImpl& block(std::int64_t layer) const { return model_.model->block(layer); }
  [[nodiscard]] const MechanismEntry& mechanism(std::int64_t layer) const;
  [[nodiscard]] at::Tensor first_row(const at::Tensor& like) const;

  void begin_step() const {
    if (before_step_) before_step_(layers_done_, layers_);
  }
  void explain_rows(std::int64_t layer);
  /// `rows` (1, H, n, N) of the map for the readout's tokens; undefined if these are many, there is no map,
  /// or the layer has a memory, `frames`, which the frame then joins.
  void attend(std::int64_t layer, FrameMemory* frames, const MixerInputs& inputs,
              const at::Tensor& rows, const Indices& indices);
  void contribute(const at::Tensor& tokens, FrameMemory* frames, const MixerInputs& inputs,
                  const at::Tensor& rows, const Indices& indices);
  /// Whether a request needs rows of the layer's map.
  [[nodiscard]] bool has_rows(std::int64_t layer) const;
  [[nodiscard]] Indices rolled_by(MaplessLayers mapless) const;
  [[nodiscard]] std::int64_t highest_of(const Indices& rolled) const;  ///< -1 of none
  [[nodiscard]] Indices swept() const;
  [[nodiscard]] std::int64_t lowest_of(const Indices& swept) const;  ///< of none the model's depth
  void roll_maps(MaplessLayers mapless);
  void sweep();
  void explain_swept(std::int64_t layer, const at::Tensor& tokens, const SweptBlock& swept,
                     std::span<const std::int64_t> classes, const Indices& indices,
                     std::vector<at::Tensor>& rolled);

  /// heat (H, N), or (1, N) from methods without heads' maps; earlier frames' (H) or (1), undefined: 0.
  void finish(std::size_t index, const at::Tensor& heat, const at::Tensor& earlier = {});
  /// The same of `parts` (., H, N) and (., H) at `which`: heads are summed, or averaged, unless the request
  /// wants each.
  void finish_heads(std::size_t index, const FrameParts& parts, std::int64_t which, bool average);
  [[nodiscard]] std::string note_of(const Request& request) const;
  [[nodiscard]] bool has_signs(const Request& request) const;

  ExplainedModel& model_;
  const VitConfig& config_;
  const at::Tensor& traced_;
  TokenGrid grid_;
  Readout readout_;
  std::int64_t last_;
  std::span<const Request> requests_;
  const BeforeStep& before_step_;
  std::vector<Explanation> explanations_;
  std::int64_t layers_done_ = 0;
  std::int64_t layers_ = 0;  ///< that `run` goes through, for rows, for rollouts and in the sweep
};

}  // namespace hydrascope::model::explain
