#include "kernels/device/cpu_features.h"

#include <array>
#include <cstring>
#include <fstream>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hydrascope::kernels::device {

CpuFeatures cpu_features() {
  CpuFeatures features;
#if defined(__aarch64__)
  features.neon = true;
#elif defined(__x86_64__)
  __builtin_cpu_init();
  features.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  features.avx512_bf16 = features.avx512 && __builtin_cpu_supports("avx512bf16");
  features.avx512_vnni = features.avx512 && __builtin_cpu_supports("avx512vnni");
  // g++ 12 does not know the words "amx-bf16" and "amx-int8" here: leaf 7, EDX bits 22 and 25.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAmxBf16Bit = 1U << 22;
  constexpr unsigned kAmxInt8Bit = 1U << 25;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    features.amx_bf16 = (edx & kAmxBf16Bit) != 0;
    features.amx_int8 = (edx & kAmxInt8Bit) != 0;
  }
  // The same of "avxvnni": leaf 7, subleaf 1, EAX bit 4.
  constexpr unsigned kAvxVnniBit = 1U << 4;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0)
    features.avx_vnni = features.avx2 && (eax & kAvxVnniBit) != 0;
#endif
  return features;
}

std::vector<std::string> names(const CpuFeatures& features) {
  std::vector<std::string> result;
  if (features.neon) result.emplace_back("neon");
  if (features.avx2) result.emplace_back("avx2");
  if (features.avx_vnni) result.emplace_back("avx_vnni");
  if (features.avx512) result.emplace_back("avx512");
  if (features.avx512_vnni) result.emplace_back("avx512_vnni");
  if (features.avx512_bf16) result.emplace_back("avx512_bf16");
  if (features.amx_bf16) result.emplace_back("amx_bf16");
  if (features.amx_int8) result.emplace_back("amx_int8");
  return result;
}

#if !defined(__x86_64__)
std::string cpu_model() {
  std::string text;
  if (std::getline(std::ifstream("/sys/firmware/devicetree/base/model"), text, '\0') &&
      !text.empty())
    return text;
  // The main identification register: architecture, maker, part and revision.
  std::ifstream identification("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  return identification >> text ? "MIDR " + text : "unknown";
}
#else
std::string cpu_model() {
  constexpr unsigned kFirstBrandLeaf = 0x80000002U;
  std::array<char, 49> brand{};
  for (unsigned part = 0; part < 3; ++part) {
    std::array<unsigned, 4> words{};
    if (__get_cpuid(kFirstBrandLeaf + part, &words[0], &words[1], &words[2], &words[3]) == 0) {
      return "unknown";
    }
    std::memcpy(brand.data() + 16 * part, words.data(), 16);
  }
  std::string text = brand.data();
  const auto first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}
#endif

CacheSizes cache_sizes() {
  CacheSizes sizes;
  if (const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); l1 > 0) sizes.l1_bytes = l1;
  if (const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); l2 > 0) sizes.l2_bytes = l2;
  return sizes;
}

}  // namespace hydrascope::kernels::device
