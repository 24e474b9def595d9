// The converted models that come along: whole, described, and of use.
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/sha256.h"
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uintmax_t kMostBytes = 13'000'000;
const std::string kSoftmax = "deit_tiny_patch16_224.softmax";

class BundledModels : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = std::string("deit_tiny_patch16_224.") + GetParam();
  const fs::path file_ = asset("models/" + name_ + ".safetensors");
};

TEST_P(BundledModels, SayWhatTheyAreAndWhereTheyComeFrom) {
  EXPECT_LE(fs::file_size(file_), kMostBytes);
  const auto model = checkpoint::SafetensorsFile::open(file_);
  for (const checkpoint::TensorView& tensor : model.tensors())
    EXPECT_EQ(tensor.dtype, checkpoint::Dtype::F16) << tensor.name;
  const checkpoint::Metadata& metadata = model.metadata();
  EXPECT_EQ(metadata.at("parent_sha256"),
            checkpoint::sha256_of_file(asset("models/" + kSoftmax + ".safetensors")));
  EXPECT_EQ(metadata.at("license"), "apache-2.0");
  EXPECT_EQ(metadata.at("labels"), "imagenet1k");
  EXPECT_EQ(metadata.at("complete"), "yes");
  // Neither folders of the machine that made it nor the set it is measured on.
  const Json recipe = Json::parse(metadata.at("recipe"));
  EXPECT_THAT(recipe.dump(), ::testing::Not(::testing::HasSubstr("ccby")));
  for (const auto& [key, value] : recipe.items())
    EXPECT_THAT(value.dump(), ::testing::Not(::testing::HasSubstr("/"))) << key;

  const std::string card = read_bytes(asset("models/" + name_ + ".md"));
  EXPECT_THAT(card, ::testing::StartsWith("# " + name_ + "\n"));
  for (const char* section : {"## How it was made", "## Data", "## Figures", "## Limits"})
    EXPECT_THAT(card, ::testing::HasSubstr(section));
  EXPECT_THAT(read_bytes(asset("NOTICE")),
              ::testing::HasSubstr("models/" + name_ + ".safetensors"));
}

TEST_P(BundledModels, StillKnowTheirClasses) {
  const Outcome outcome = run({"classify", asset("images/oakland-zoo-otters.jpg"), "-m", name_,
                               "--device cpu --format jsonl"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json record = Json::parse(outcome.out);
  EXPECT_NE(record.at("attention"), "softmax");
  EXPECT_EQ(record.at("top")[0].at("label"), "otter");
}

INSTANTIATE_TEST_SUITE_P(Converted, BundledModels,
                         ::testing::Values("hedgehog", "hydra_last2", "window"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace hydrascope::testing
