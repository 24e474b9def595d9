// LoRA (Hu et al. 2021, arXiv 2106.09685, section 4.1): a weight W (out, in) stays as it is, and
// W + s B A is used in its place, where A (rank, in) and B (out, rank) learn and s = alpha / rank. A
// begins as PEFT's, B with zeros: the model is itself.
#pragma once

#include "model/training/optimizer.h"
#include "model/training/options.h"
#include "model/vision_transformer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// The updates of a model's weights while they learn. Modules read W + s B A, which `enter` computes
/// for every forward pass as a part of its graph; `settle` adds s B A to W for everybody else.
class LowRankUpdates {
 public:
  /// Takes the targets' weights out of `groups` and puts A and B in their places, at the same rate and
  /// decay. Classifiers and additions of mechanisms go on learning; all else in the blocks and around
  /// them is frozen. `seed` draws A. The model must outlive it. Throws Error(invalid_argument) for a
  /// target that no block has, and for a rank that is no smaller than the weight's.
  LowRankUpdates(VisionTransformerImpl& model, std::vector<ParameterGroup>& groups,
                 LowRankOptions options, std::uint64_t seed);
  LowRankUpdates(const LowRankUpdates&) = delete;
  LowRankUpdates& operator=(const LowRankUpdates&) = delete;
  /// Gives the model its own weights back: as the last `settle` left them, if no `enter` came after it.
  ~LowRankUpdates();

  /// Before every forward pass whose gradients are wanted.
  void enter();
  /// The weights become W + s B A of now; before the model is judged or saved. Until the next `enter` W
  /// is kept beside them.
  void settle();

  /// W, A and B of settled weights by name, "lora.blocks.0.attn.qkv.lora_A.weight": the tensors
  /// themselves.
  [[nodiscard]] NamedTensors state() const;
  /// `settle`, and `state` behind the other tensors that a run saves.
  void settle_into(NamedTensors& tensors);
  /// After the model was given weights that were saved settled. Throws as `copy_named` does.
  void load_state(const NamedTensors& state);

  /// Whether A, B and classifiers are all that learns: then an adapter of PEFT holds it.
  [[nodiscard]] bool is_adapter() const noexcept { return is_adapter_; }
  /// Writes a folder that PEFT reads (adapter_config.json, adapter_model.safetensors): A, B, and the
  /// classifiers of `groups` as modules_to_save. `base` names the model that it belongs to. Throws
  /// Error(unwritable).
  void save(const std::filesystem::path& folder, const std::string& base) const;

 private:
  struct Update {
    std::string layer;  ///< "blocks.0.attn.qkv"
    torch::nn::LinearImpl* linear;
    at::Tensor weight, a, b;
    at::Tensor kept;  ///< W, while settled
  };
  void leave();

  LowRankOptions options_;
  std::vector<std::string> targets_;
  std::vector<Update> updates_;
  NamedTensors heads_;
  bool is_adapter_ = true;
};

}  // namespace hydrascope::model::training
