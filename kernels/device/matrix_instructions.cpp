#include "kernels/device/matrix_instructions.h"
#include <hwy/highway.h>

#include "kernels/device/cpu_features.h"

#include <atomic>
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

/// The instructions that the dispatched target, the best one that is compiled and supported, has code for.
unsigned compiled() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  [[maybe_unused]] const std::int64_t dispatched = targets & -targets;
#if HWY_ARCH_X86
  if (dispatched == HWY_AVX2) return bit(MatrixInstruction::avx_vnni);
  if (dispatched <= HWY_AVX3) return ~bit(MatrixInstruction::avx_vnni);
#endif
  return 0;
}

std::atomic<unsigned> allowed{present()};
std::atomic<unsigned> usable{allowed & compiled()};

}  // namespace

const char* amx_refusal() noexcept {
  static const char* const refusal = ask_for_tiles();
  return refusal;
}

bool may_use(MatrixInstruction instruction) noexcept {
  return (usable.load(std::memory_order_relaxed) & bit(instruction)) != 0;
}

void allow_for_test(MatrixInstruction instruction, bool allow) noexcept {
  if (allow)
    allowed |= bit(instruction) & present();
  else
    allowed &= ~bit(instruction);
  usable = allowed & compiled();
}

void pretend_for_test(MatrixInstruction instruction) noexcept {
  allowed |= bit(instruction);
  usable = allowed & compiled();
}

void set_target_for_test(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  usable = allowed & compiled();
}

}  // namespace hydrascope::kernels::device
