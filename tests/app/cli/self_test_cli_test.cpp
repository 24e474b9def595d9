// File -> decoded -> transformed -> logits, through the program, against timm with Pillow:
// assets/self_test.safetensors, made by scripts/make/make_goldens.py.
#include "model/checkpoint/formats/safetensors.h"
#include "tests/app/cli/program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace hydrascope::testing {
namespace self_test_cli_test {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;
using Json = nlohmann::json;

std::vector<float> values_of(const SafetensorsFile& file, const char* name) {
  const checkpoint::TensorView& view = *file.find(name);
  std::vector<float> values(view.data.size() / sizeof(float));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

struct Distance {
  double largest = 0;
  double relative = 0;  ///< L2
};
Distance distance(std::span<const float> found, std::span<const float> expected) {
  Distance distance;
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double by = double{found[i]} - double{expected[i]};
    distance.largest = std::max(distance.largest, std::abs(by));
    difference += by * by;
    size += double{expected[i]} * double{expected[i]};
  }
  distance.relative = std::sqrt(difference / size);
  return distance;
}

std::ptrdiff_t best(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

/// (pictures, 3, 224, 224) -> (pictures, 3, 14, 14).
std::vector<float> patch_means(const Npy& input) {
  constexpr std::size_t kSize = 224;
  constexpr std::size_t kPatch = 16;
  constexpr std::size_t kGrid = kSize / kPatch;
  std::vector<float> means;
  for (std::size_t plane = 0; plane < input.values.size() / (kSize * kSize); ++plane) {
    std::vector<double> sums(kGrid * kGrid);
    for (std::size_t i = 0; i < kSize * kSize; ++i)
      sums[i / kSize / kPatch * kGrid + i % kSize / kPatch] +=
          double{input.values[plane * kSize * kSize + i]};
    for (const double sum : sums) means.push_back(static_cast<float>(sum / (kPatch * kPatch)));
  }
  return means;
}

TEST(SelfTestCliTest, PicturesGiveTimmsLogitsInEveryPrecision) {
  const Json machine = run({"doctor --format json"}).json();
  if (!machine.at("decoder").get<std::string>().starts_with("OpenCV"))
    GTEST_SKIP() << "this build has no OpenCV";
  const auto golden = SafetensorsFile::open(asset("self_test.safetensors"));
  const std::vector<float> expected = values_of(golden, "logits");
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  Words words{"classify -m",
              golden.metadata().at("model"),
              "--device cpu --save-logits",
              path("logits.npy"),
              "--save-input",
              path("input.npy"),
              "-o",
              path("records.jsonl")};
  const auto files = Json::parse(golden.metadata().at("files"));
  ASSERT_GE(files.size(), 4U);
  for (const auto& file : files)
    words.push_back(asset("images/" + file.get<std::string>()).string());
  // Pillow and this decoder, and their resampling, are that far apart in float32; then comes what 8
  // bits of mantissa, and integers of 8 bits, do to this model.
  struct Case {
    const char* precision;
    double largest;
    double relative;
  };
  for (const auto& [precision, largest, relative] :
       {Case{"float32", 0.03, 0.01}, {"bfloat16", 0.3, 0.03}, {"int8", 0.6, 0.09}}) {
    SCOPED_TRACE(precision);
    Words all = words + Words{"--precision", precision};
    run_well(all);
    const Npy logits(folder.path() / "logits.npy");
    ASSERT_EQ(logits.values.size(), expected.size());
    const Distance found = distance(logits.values, expected);
    EXPECT_LT(found.largest, largest);
    EXPECT_LT(found.relative, relative);
    for (std::size_t row = 0; row < files.size(); ++row) {
      const auto of_row = [&](const std::vector<float>& values) {
        return std::span(values).subspan(row * 1000, 1000);
      };
      EXPECT_EQ(best(of_row(logits.values)), best(of_row(expected))) << files[row];
    }
    const std::vector<float> means = patch_means(Npy(folder.path() / "input.npy"));
    const std::vector<float> wanted = values_of(golden, "patch_means");
    ASSERT_EQ(means.size(), wanted.size());
    EXPECT_LT(distance(means, wanted).largest, 1e-3);
  }
}

}  // namespace self_test_cli_test
}  // namespace hydrascope::testing
