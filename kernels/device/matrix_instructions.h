// Instructions that multiply narrow types and that Highway's targets do not know: kernels carry a
// function of intrinsics for each and ask here whether it may run.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::device {

enum class MatrixInstruction : unsigned {
  avx512_bf16 = 1,  ///< vdpbf16ps: two bfloat16 products per lane
  avx512_vnni = 2,  ///< vpdpbusd: four products of uint8 and int8 per lane
  amx_bf16 = 4,     ///< tdpbf16ps: tiles of 16 x 32 by 32 x 16 bfloat16
  amx_int8 = 8,     ///< tdpbusd: tiles of 16 x 64 by 64 x 16 uint8 and int8
  avx_vnni = 16,    ///< vpdpbusd on vectors of 256 bits, on processors without AVX-512
};

/// Whether this processor has it, Linux lets the process use it (amx_refusal), the target that Highway
/// dispatches has code for it (AVX-512: all but avx_vnni; AVX2: that one), and no test forbids it.
bool may_use(MatrixInstruction instruction) noexcept;
/// Forbids or allows an instruction that the processor has, for this process.
void allow_for_test(MatrixInstruction instruction, bool allowed) noexcept;
/// As if this processor had it, until it is forbidden: for a test that does the instructions itself.
void pretend_for_test(MatrixInstruction instruction) noexcept;
/// Has Highway dispatch `target`; 0: the best one again.
void set_target_for_test(std::int64_t target);

/// The reason why this process may not use tile registers; null: it may. Three have to agree: the
/// processor (CPUID leaf 7, EDX bit 24), the system that saves the registers at a switch of context
/// (XCR0 bits 17 and 18), and Linux since 5.16, which hands out their 8 KiB per thread on request
/// only: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), docs.kernel.org/arch/x86/xstate.html.
/// The request is made at the first call, for the whole process and its later threads, and cannot
/// be taken back.
const char* amx_refusal() noexcept;

}  // namespace hydrascope::kernels::device
