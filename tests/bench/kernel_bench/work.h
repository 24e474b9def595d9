// A kernel call to measure.
#pragma once

#include "kernels/device/stream.h"

#include <functional>
#include <string>
#include <vector>

namespace hydrascope::bench {

/// Memory and arguments of one call.
struct Work {
  std::function<void(kernels::device::Stream)> run;
  /// Brings back what `run` overwrites, before every measured launch and outside its time; may be
  /// empty.
  std::function<void(kernels::device::Stream)> restore;
  /// Whether what `run` wrote is finite.
  std::function<bool()> finite;
};

struct Case {
  std::string kernel;  ///< "hydra forward"
  std::string shape;   ///< "B 8, N 8161, D 768"
  std::string type;    ///< what tensors are stored in
  double bytes;        ///< each input read once, each output written once
  double flops;        ///< 2 a multiply-add
  std::function<Work(kernels::device::Stream)> prepare;
};

std::vector<Case> hydra_cases();
std::vector<Case> linear_attention_cases();
std::vector<Case> row_cases();      ///< layer_norm, gelu, token_rows
std::vector<Case> picture_cases();  ///< patchify
std::vector<Case> product_cases();  ///< cuBLASLt, with the epilogues of a block

}  // namespace hydrascope::bench
