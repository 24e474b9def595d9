#include "kernels/device/matrix_instructions.h"

#include "kernels/device/amx_permission.h"
#include "kernels/device/cpu_features.h"

#include <atomic>

namespace hydrascope::kernels::device {
namespace {

constexpr unsigned bit(MatrixInstruction instruction) { return static_cast<unsigned>(instruction); }

unsigned present() {
  const CpuFeatures features = cpu_features();
  const bool tiles = amx_refusal() == nullptr;
  return (features.avx512_bf16 ? bit(MatrixInstruction::avx512_bf16) : 0U) |
         (features.avx512_vnni ? bit(MatrixInstruction::avx512_vnni) : 0U) |
         (tiles && features.amx_bf16 ? bit(MatrixInstruction::amx_bf16) : 0U) |
         (tiles && features.amx_int8 ? bit(MatrixInstruction::amx_int8) : 0U);
}

std::atomic<unsigned> usable{present()};

}  // namespace

bool may_use(MatrixInstruction instruction) noexcept {
  return (usable.load(std::memory_order_relaxed) & bit(instruction)) != 0;
}

void allow_for_test(MatrixInstruction instruction, bool allowed) noexcept {
  if (allowed)
    usable |= bit(instruction) & present();
  else
    usable &= ~bit(instruction);
}

}  // namespace hydrascope::kernels::device
