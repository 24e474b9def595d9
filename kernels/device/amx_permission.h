// Whether this process may use tile registers. Three have to agree: the processor (CPUID leaf 7,
// EDX bit 24), the system that saves the registers at a switch of context (XCR0 bits 17 and 18),
// and Linux since 5.16, which hands out their 8 KiB per thread on request only:
// arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), docs.kernel.org/arch/x86/xstate.html. The
// request is for the whole process and its later threads, and cannot be taken back.
#pragma once

namespace hydrascope::kernels::device {

/// Null: it may. Else the reason why not. Linux is asked at the first call.
const char* amx_refusal() noexcept;

}  // namespace hydrascope::kernels::device
