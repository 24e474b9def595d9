// Sets LibTorch's precision and determinism for a while. The settings are the whole process's, and
// two models may want different ones.
#pragma once

#include <ATen/Context.h>

namespace hydrascope::model {

/// While it lives, `tf32` says whether LibTorch's own products on a GPU use TF32; with
/// `deterministic` LibTorch's operators give the same bits in every run. Guards that live at once
/// on two threads must want the same.
class PrecisionGuard {
 public:
  PrecisionGuard(bool tf32, bool deterministic) {
    at::Context& context = at::globalContext();
    context.setAllowTF32CuBLAS(tf32);
    context.setAllowTF32CuDNN(tf32);
    // A process that is already deterministic stays so.
    if (deterministic) context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  PrecisionGuard(const PrecisionGuard&) = delete;
  PrecisionGuard& operator=(const PrecisionGuard&) = delete;
  ~PrecisionGuard() {
    at::Context& context = at::globalContext();
    context.setAllowTF32CuBLAS(products_before_);
    context.setAllowTF32CuDNN(convolutions_before_);
    context.setDeterministicAlgorithms(deterministic_before_, warns_before_);
  }

 private:
  bool products_before_ = at::globalContext().allowTF32CuBLAS();
  bool convolutions_before_ = at::globalContext().allowTF32CuDNN();
  bool deterministic_before_ = at::globalContext().deterministicAlgorithms();
  bool warns_before_ = at::globalContext().deterministicAlgorithmsWarnOnly();
};

}  // namespace hydrascope::model
