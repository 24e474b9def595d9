// Exponential moving average of a model's parameters (Polyak averaging).
#pragma once

#include "model/training/optimizer.h"

#include <ATen/core/Tensor.h>

namespace hydrascope::model::training {

class ParameterAverage {
 public:
  /// Starts as a copy of `parameters` in float32. With `warmup` the decay of update t (from 0) is
  /// min(decay, 1 - (1 + t)^(-2/3)), timm's (ModelEmaV3), for the sake of short runs.
  ParameterAverage(NamedTensors parameters, double decay, bool warmup);
  /// average <- d average + (1 - d) parameter.
  void update();
  /// Exchanges the averages with the parameters' values: once to evaluate, once to go back. Between
  /// the two neither `update` nor `state` makes sense.
  void swap();

  /// "ema.blocks.0..." and "ema.updates": the tensors themselves, not copies.
  [[nodiscard]] NamedTensors state() const;
  /// Throws as `copy_named` does.
  void load_state(const NamedTensors& state);

 private:
  NamedTensors parameters_;
  std::vector<at::Tensor> averages_;
  double decay_;
  bool warmup_;
  at::Tensor updates_;  ///< int64 scalar
};

/// The tensors that optimizer and average keep between two steps; `average` may be null.
NamedTensors state_of(const Optimizer& optimizer, const ParameterAverage* average);

}  // namespace hydrascope::model::training
