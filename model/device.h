// The device and the precision of a model: words of the command line -> LibTorch's device and
// dtype, checked against this machine's abilities. Never a silent fallback.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hydrascope::model {

/// Loads LibTorch's CUDA library at its first call. Returns "" when CUDA can be used, else the
/// reason. LibTorch remembers its first answer about CUDA, so nothing may ask LibTorch earlier.
const std::string& cuda_unavailable_reason();

/// Seeds LibTorch's generators: the CPU's, and the GPUs' once CUDA is loaded. LibTorch's own
/// at::manual_seed asks for CUDA; asked before that, LibTorch says no from then on.
void seed_generators(std::uint64_t seed);

/// "auto" (a GPU when one can be used, else the CPU), "cpu", "cuda", "cuda:N". Every word loads
/// CUDA on a machine with a GPU, so this comes before LibTorch's first operator. A named device
/// that cannot be used is Error(failed) with the reason; another word is Error(invalid_argument).
c10::Device resolve_device(std::string_view word);

/// The dtype of weights and activations on a device, and whether float32 products may use TF32.
struct Precision {
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool tf32 = false;
  /// The blocks' weights and inputs have 8 bits, the rest is in `dtype`.
  bool int8 = false;
  /// The word for records: "float32", "tf32", "float16", "bfloat16", "int8".
  [[nodiscard]] std::string_view name() const;
};

/// "auto" is float32 on the CPU and bfloat16 on a GPU. Throws Error(invalid_argument) for a
/// precision that the device lacks.
Precision resolve_precision(std::string_view word, const c10::Device& device);

}  // namespace hydrascope::model
