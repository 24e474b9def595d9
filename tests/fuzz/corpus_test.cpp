// Every input that is kept, through its fuzz target: valid ones (corpus) and those that once ended it (findings).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

// The build renames each target's functions, so that all are one program, and lists them.
#define HYDRASCOPE_TARGET(name) \
  extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
HYDRASCOPE_FUZZ_TARGETS
#undef HYDRASCOPE_TARGET

/// libFuzzer's; nothing is changed here.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* /*data*/, std::size_t size,
                                        std::size_t /*most*/) {
  return size;
}

namespace {

namespace fs = std::filesystem;

struct Target {
  std::string name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

const std::vector<Target> kTargets{
#define HYDRASCOPE_TARGET(name) {#name, fuzz_##name},
    HYDRASCOPE_FUZZ_TARGETS
#undef HYDRASCOPE_TARGET
};

class FuzzCorpusTest : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpusTest, KeptInputsAreReadOrRefused) {
  std::vector<fs::path> files;
  for (const char* kind : {"corpus", "findings"}) {
    const fs::path folder = fs::path(HYDRASCOPE_SOURCE_DIR "/tests/fuzz") / kind / GetParam().name;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  ASSERT_FALSE(files.empty()) << "a target without an input tests nothing";
  for (const fs::path& file : files) {
    std::cout << file.native() << std::endl;  // the last one is what ends the program
    std::ifstream stream(file, std::ios::binary);
    const std::string read{std::istreambuf_iterator<char>(stream), {}};
    // At the end of its own allocation, so that AddressSanitizer sees the first byte read beyond it.
    const std::vector<std::uint8_t> input(read.begin(), read.end());
    EXPECT_EQ(GetParam().run(input.data(), input.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpusTest, ::testing::ValuesIn(kTargets),
                         [](const auto& target) { return target.param.name; });

}  // namespace
