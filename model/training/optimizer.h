// AdamW and SGD over groups of parameters, with their whole state as named tensors, so that a
// training state is a safetensors file like any other.
#pragma once

#include "model/training/options.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Parameters that share their settings.
struct ParameterGroup {
  NamedTensors parameters;
  double learning_rate_scale = 1;  ///< layer decay, faster feature maps
  double weight_decay = 0;
};

class Optimizer {
 public:
  Optimizer(std::vector<ParameterGroup> groups, OptimizerOptions options);

  /// One update with `learning_rate` times each group's scale, by LibTorch's fused kernels;
  /// parameters without a gradient stay.
  void step(double learning_rate);
  /// Gradients become undefined.
  void zero_grad();
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  /// The parameters of all groups, in the groups' order.
  [[nodiscard]] NamedTensors named_parameters() const;
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const noexcept { return groups_; }

  /// The tensors themselves, not copies: "exp_avg.blocks.0.attn.qkv.weight", "exp_avg_sq...",
  /// "step..." for AdamW, "momentum_buffer..." for SGD; parameters that were never stepped
  /// included.
  [[nodiscard]] NamedTensors state() const;
  /// Copies a `state`; throws as `copy_named` does.
  void load_state(const NamedTensors& state);

 private:
  /// The optimizer's state of one parameter.
  struct Slot {
    at::Tensor first;   ///< mean of gradients, or SGD's momentum
    at::Tensor second;  ///< AdamW
    at::Tensor step;    ///< AdamW: float scalar on the parameter's device, for the kernel
  };
  std::vector<ParameterGroup> groups_;
  OptimizerOptions options_;
  std::vector<std::vector<Slot>> slots_;
};

/// Copies into each tensor of `destination` the tensor of its name in `source`, which may hold
/// more. Throws Error(failed) that lists all names that are missing or have another shape, before
/// anything is copied.
void copy_named(const NamedTensors& source, const NamedTensors& destination,
                const std::string& subject);

/// Scales the gradients so that their joint L2 norm is at most `max_norm` (`<= 0`: never); returns
/// the norm before. Gradients with a norm that is not finite are useless afterwards.
double clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm);

}  // namespace hydrascope::model::training
