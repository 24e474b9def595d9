// Mixed precision as torch.autocast gives it: products in a half type, sums and losses in float32.
#pragma once

#include "model/training/options.h"

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace hydrascope::model::training {

/// While it lives, this thread's operations on `device` are cast; weights are cast once per scope.
class AutocastScope {
 public:
  AutocastScope(Autocast autocast, c10::DeviceType device);
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope();

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  c10::ScalarType was_dtype_;
};

}  // namespace hydrascope::model::training
