#include "kernels/device/cpu_features.h"
#include "kernels/device/gpu_info.h"
#include "kernels/device/matrix_instructions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hydrascope::kernels::device {
namespace {

/// The kernel's own list of flags: an independent witness.
std::string kernel_flags() {
  std::ifstream stream("/proc/cpuinfo");
  std::string line;
  while (std::getline(stream, line)) {
    if (line.starts_with("flags")) return line + " ";
  }
  return "";
}

TEST(CpuFeaturesTest, AgreeWithTheKernel) {
  const CpuFeatures features = cpu_features();
#if defined(__aarch64__)
  EXPECT_TRUE(features.neon);
  EXPECT_EQ(names(features), std::vector<std::string>{"neon"});
  return;
#endif
  EXPECT_FALSE(features.neon);
  const std::string flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags line";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  EXPECT_EQ(features.avx2, has("avx2") && has("fma"));
  EXPECT_EQ(features.avx512,
            has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(features.avx512_bf16, features.avx512 && has("avx512_bf16"));
  EXPECT_EQ(features.avx_vnni, features.avx2 && has("avx_vnni"));
  EXPECT_EQ(features.amx_bf16, has("amx_bf16"));
  EXPECT_EQ(features.amx_int8, has("amx_int8"));
}

TEST(MatrixInstructionsTest, AmxNeedsTheProcessorAndPermission) {
  const CpuFeatures features = cpu_features();
  const bool permitted = amx_refusal() == nullptr;
  EXPECT_EQ(may_use(MatrixInstruction::amx_bf16), permitted && features.amx_bf16);
  EXPECT_EQ(may_use(MatrixInstruction::amx_int8), permitted && features.amx_int8);
  const std::string flags = kernel_flags();
  if (!flags.empty() && flags.find(" amx_tile ") == std::string::npos) {
    EXPECT_FALSE(permitted);
  }
  allow_for_test(MatrixInstruction::amx_bf16, true);  // gives nothing that is not there
  EXPECT_EQ(may_use(MatrixInstruction::amx_bf16), permitted && features.amx_bf16);
}

TEST(CpuFeaturesTest, NamesFollowTheFlags) {
  EXPECT_TRUE(names({}).empty());
  EXPECT_EQ(names({.avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true}),
            (std::vector<std::string>{"avx2", "avx512", "avx512_bf16", "amx_bf16"}));
  EXPECT_EQ(names({.amx_int8 = true}), std::vector<std::string>{"amx_int8"});
}

TEST(CpuModelTest, IsOneTrimmedLine) {
  const std::string model = cpu_model();
  ASSERT_FALSE(model.empty());
  EXPECT_NE(model.front(), ' ');
  EXPECT_NE(model.back(), ' ');
}

TEST(GpuInfoTest, HasEitherGpusOrAReason) {
  const GpuInfo info = gpu_info();
  EXPECT_NE(info.gpus.empty(), info.why_none.empty());
  for (const Gpu& gpu : info.gpus) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.memory_bytes, 0U);
    EXPECT_GE(gpu.major, 5);
  }
}

TEST(GpuInfo, KnowsWhichGpusABuildRunsOn) {
  constexpr std::string_view kDefault = "80, 86-real, 89-real, 90-real, 100-real, 120";
  for (const auto& [major, minor] : {std::pair{8, 0},
                                     {8, 6},
                                     {8, 7},
                                     {8, 9},
                                     {9, 0},
                                     {10, 0},
                                     {10, 3},
                                     {11, 0},
                                     {12, 0},
                                     {12, 1},
                                     {13, 0}})
    EXPECT_TRUE(device::has_code_for(kDefault, major, minor)) << major << "." << minor;
  EXPECT_FALSE(device::has_code_for(kDefault, 7, 5)) << "older than the oldest PTX";
  EXPECT_FALSE(device::has_code_for("90a-real", 10, 0));
  EXPECT_FALSE(device::has_code_for("90a-real", 8, 9));
  EXPECT_FALSE(device::has_code_for("90a", 10, 0)) << "PTX of 9.0a is 9.0's alone";
  EXPECT_TRUE(device::has_code_for("90a-real", 9, 0));
  EXPECT_TRUE(device::has_code_for("86-real", 8, 9)) << "machine code serves later minor versions";
  EXPECT_FALSE(device::has_code_for("89-real", 8, 6));
  EXPECT_TRUE(device::has_code_for("80-virtual", 9, 0));
  EXPECT_FALSE(device::has_code_for("", 9, 0));
}

}  // namespace
}  // namespace hydrascope::kernels::device
