// Where a model runs and in which precision: words of the command line -> LibTorch's device and
// dtype, checked against what this machine can do. Never a silent fallback.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hydrascope::model {

/// Loads LibTorch's CUDA library the first time it is called. Returns "" when CUDA can be used,
/// else why not. Must run before anything asks LibTorch for CUDA, which remembers the answer.
const std::string& cuda_unavailable_reason();

/// Seeds LibTorch's generators: the processor's, and the GPUs' where CUDA is loaded. LibTorch's
/// own at::manual_seed asks for CUDA: before the library is loaded the answer is no, and stays no.
void seed_generators(std::uint64_t seed);

/// "auto" (a GPU when one can be used, else the CPU), "cpu", "cuda", "cuda:N". Loads CUDA where there
/// is a GPU, whatever the word: to be called before LibTorch's first operator. A device that is
/// named and cannot be used is Error(failed) with the reason; another word is
/// Error(invalid_argument).
c10::Device resolve_device(std::string_view word);

/// On a device: the dtype of weights and activations, and whether float32 products
/// may use TF32.
struct Precision {
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool tf32 = false;
  /// Weights of the blocks and their inputs in 8 bits, the rest in `dtype`.
  bool int8 = false;
  /// The word for records: "float32", "tf32", "float16", "bfloat16", "int8".
  [[nodiscard]] std::string_view name() const;
};

/// "auto" is float32 on the CPU and bfloat16 on a GPU. What a device cannot do is
/// Error(invalid_argument) that says so.
Precision resolve_precision(std::string_view word, const c10::Device& device);

}  // namespace hydrascope::model
