// This processor's instruction sets and caches, asked at run time: they choose among kernels, which
// are compiled per instruction set, and the tiles' sizes; `doctor` prints them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::kernels::device {

struct CpuFeatures {
  bool neon = false;  ///< every AArch64 processor
  bool avx2 = false;  ///< with FMA
  bool avx_vnni = false;
  bool avx512 = false;  ///< F, BW, DQ and VL together
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx_bf16 = false;  ///< whether Linux lets a program use it: matrix_instructions.h
  bool amx_int8 = false;
};

/// Features of the processor that runs the program.
CpuFeatures cpu_features();

/// Their names in ascending order of capability, e.g. {"avx2", "avx512", "avx512_bf16"}.
std::vector<std::string> names(const CpuFeatures& features);

/// Brand string from CPUID, trimmed, e.g. "AMD EPYC 9B14"; on AArch64 the board's name or the
/// processor's identification register; "unknown" when the machine hides it.
std::string cpu_model();

/// The data caches that one core sees.
struct CacheSizes {
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 512 << 10;
};
/// As the operating system reports them; a size that it hides keeps the default above.
CacheSizes cache_sizes();

}  // namespace hydrascope::kernels::device
