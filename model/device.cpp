#include "model/device.h"

#include "kernels/device/gpu_info.h"
#include "kernels/error.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <mutex>

namespace hydrascope::model {
namespace {

std::string without_code(const kernels::device::GpuInfo& info, const kernels::device::Gpu& gpu) {
  return "this build has kernels for the CUDA architectures " + info.architectures +
         " and none for " + gpu.name + " (" + std::to_string(gpu.major) + "." +
         std::to_string(gpu.minor) + "); set HYDRASCOPE_CUDA_ARCHITECTURES";
}

std::atomic<bool> cuda_is_loaded = false;

std::string load_cuda() {
  const kernels::device::GpuInfo gpus = kernels::device::gpu_info();
  if (gpus.gpus.empty()) return gpus.why_none;
  if (std::ranges::none_of(gpus.gpus, &kernels::device::Gpu::has_code))
    return without_code(gpus, gpus.gpus.front());
  // RTLD_GLOBAL: libtorch_cuda registers its kernels with libtorch_cpu's dispatcher when it is
  // loaded.
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* reason = dlerror();
    return std::string("LibTorch's CUDA library does not load: ") +
           (reason != nullptr ? reason : "unknown");
  }
  cuda_is_loaded = true;
  if (!at::globalContext().hasCUDA()) return "LibTorch finds no usable GPU";
  return "";
}

}  // namespace

const std::string& cuda_unavailable_reason() {
  static const std::string reason = load_cuda();
  return reason;
}

void seed_generators(std::uint64_t seed) {
  if (cuda_is_loaded) {
    at::manual_seed(seed);
    return;
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

c10::Device resolve_device(std::string_view word) {
  // LibTorch's operators on the CPU ask for CUDA too, and LibTorch keeps the first answer. A GPU's
  // library is therefore loaded first, or the next model could not use the GPU.
  const std::string& reason = cuda_unavailable_reason();
  if (word == "cpu") return c10::Device(c10::kCPU);
  if (word == "auto" || word.empty()) {
    if (!reason.empty()) return c10::Device(c10::kCPU);
    const kernels::device::GpuInfo info = kernels::device::gpu_info();
    const auto usable = std::ranges::find(info.gpus, true, &kernels::device::Gpu::has_code);
    return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(usable->index));
  }
  const auto colon = word.find(':');
  const std::string_view digits = colon == std::string_view::npos ? "0" : word.substr(colon + 1);
  const bool is_index = !digits.empty() && digits.size() <= 3 &&
                        digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (word.substr(0, colon) != "cuda" || !is_index) {
    throw Error(ErrorCode::invalid_argument,
                "expected auto, cpu, cuda or cuda:N, found '" + std::string(word) + "'",
                "`device`");
  }
  if (!reason.empty()) {
    throw Error(ErrorCode::failed, "CUDA cannot be used: " + reason,
                "`device` " + std::string(word),
                "`device` cpu runs on the processor; `hydrascope doctor` says more");
  }
  const int index = std::stoi(std::string(digits));
  const kernels::device::GpuInfo info = kernels::device::gpu_info();
  const std::string subject = "`device` " + std::string(word);
  const auto gpu = std::ranges::find(info.gpus, index, &kernels::device::Gpu::index);
  if (gpu == info.gpus.end())
    throw Error(ErrorCode::failed,
                "there are " + std::to_string(info.gpus.size()) + " GPUs, counted from 0", subject);
  if (!gpu->has_code) throw Error(ErrorCode::failed, without_code(info, *gpu), subject);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

std::string_view Precision::name() const {
  if (int8) return "int8";
  switch (dtype) {
    case c10::ScalarType::Half: return "float16";
    case c10::ScalarType::BFloat16: return "bfloat16";
    default: return tf32 ? "tf32" : "float32";
  }
}

Precision resolve_precision(std::string_view word, const c10::Device& device) {
  if (word == "auto" || word.empty()) {
    return {device.is_cuda() ? c10::ScalarType::BFloat16 : c10::ScalarType::Float, false};
  }
  if (word == "float32") return {c10::ScalarType::Float, false};
  if (word == "bfloat16") return {c10::ScalarType::BFloat16, false};
  if (word == "float16" && device.is_cuda()) return {c10::ScalarType::Half, false};
  if (word == "tf32" && device.is_cuda()) return {c10::ScalarType::Float, true};
  if (word == "int8" && device.is_cpu()) return {c10::ScalarType::BFloat16, false, true};
  const std::string reason = word == "tf32" || word == "float16" ? "it exists on GPUs only"
                             : word == "int8"                    ? "it exists on the CPU only"
                                                                 : "this build does not run it";
  throw Error(ErrorCode::invalid_argument,
              "cannot use '" + std::string(word) + "' on " + device.str() + ": " + reason,
              "`precision`",
              device.is_cuda()    ? "float32, tf32, float16, bfloat16"
              : word == "float16" ? "`precision` bfloat16 takes as little memory"
                                  : "float32, bfloat16, int8");
}

}  // namespace hydrascope::model
