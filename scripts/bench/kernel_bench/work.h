// A kernel call to measure.
#pragma once

#include "kernels/device/stream.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hydrascope::bench {

/// Every number that only time asks for, and what a test on the stand-in for CUDA takes instead.
#ifdef HYDRASCOPE_STAND_IN
constexpr std::int64_t sized(std::int64_t /*full*/, std::int64_t tiny) { return tiny; }
#else
constexpr std::int64_t sized(std::int64_t full, std::int64_t /*tiny*/) { return full; }
#endif

/// Memory and arguments of one call.
struct Work {
  std::function<void(kernels::device::Stream)> run;
  /// Whether what `run` wrote is finite.
  std::function<bool()> finite;
  /// The memory that `run` writes, whole 16-byte words; empty for calls that are not replayed.
  struct Written {
    void* data;
    std::size_t bytes;
  };
  std::vector<Written> written = {};
};

struct Case {
  std::string kernel;  ///< "hydra forward"
  std::string shape;   ///< "B 8, N 8161, D 768"
  std::string type;    ///< what tensors are stored in
  double bytes;        ///< each input read once, each output written once
  double flops;        ///< 2 a multiply-add
  std::function<Work(kernels::device::Stream)> prepare;
};

std::vector<Case> attention_cases();  ///< hydra, hedgehog, elu
std::vector<Case> layer_cases();      ///< the rest of a layer, and cuBLASLt's products

}  // namespace hydrascope::bench
