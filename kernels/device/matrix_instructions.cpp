#include "kernels/device/matrix_instructions.h"

#include "kernels/device/cpu_features.h"

#include <atomic>
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hydrascope::kernels::device {
namespace {

#if defined(__x86_64__)
/// XCR0; may be called only if CPUID has OSXSAVE.
std::uint64_t enabled_states() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

const char* ask_for_tiles() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAmxTileBit = 1U << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmxTileBit) == 0)
    return "the processor has no AMX";
  constexpr unsigned kOsXsaveBit = 1U << 27;
  constexpr std::uint64_t kTileStates = (1U << 17) | (1U << 18);
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsaveBit) == 0 ||
      (enabled_states() & kTileStates) != kTileStates)
    return "the system does not save AMX registers";
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, not in older headers
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0)
    return "Linux does not permit AMX (before 5.16, or a small alternate signal stack)";
  return nullptr;
}
#else
const char* ask_for_tiles() noexcept { return "the processor has no AMX"; }
#endif

constexpr unsigned bit(MatrixInstruction instruction) { return static_cast<unsigned>(instruction); }

unsigned present() {
  const CpuFeatures features = cpu_features();
  const bool tiles = amx_refusal() == nullptr;
  return (features.avx512_bf16 ? bit(MatrixInstruction::avx512_bf16) : 0U) |
         (features.avx512_vnni ? bit(MatrixInstruction::avx512_vnni) : 0U) |
         (features.avx_vnni ? bit(MatrixInstruction::avx_vnni) : 0U) |
         (tiles && features.amx_bf16 ? bit(MatrixInstruction::amx_bf16) : 0U) |
         (tiles && features.amx_int8 ? bit(MatrixInstruction::amx_int8) : 0U);
}

std::atomic<unsigned> usable{present()};

}  // namespace

const char* amx_refusal() noexcept {
  static const char* const refusal = ask_for_tiles();
  return refusal;
}

bool may_use(MatrixInstruction instruction) noexcept {
  return (usable.load(std::memory_order_relaxed) & bit(instruction)) != 0;
}

void allow_for_test(MatrixInstruction instruction, bool allowed) noexcept {
  if (allowed)
    usable |= bit(instruction) & present();
  else
    usable &= ~bit(instruction);
}

void pretend_for_test(MatrixInstruction instruction) noexcept { usable |= bit(instruction); }

}  // namespace hydrascope::kernels::device
