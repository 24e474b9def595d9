// Models: those that come along are whole, described, and of use; others are found, or refused in a line.
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/sha256.h"
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uintmax_t kMostBytes = 13'000'000;
const std::string kOtters = asset("images/oakland-zoo-otters.jpg").string();
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
  const Outcome outcome =
      run_well({"classify", kOtters, "-m", name_, "--device cpu --format jsonl"});
  const Json record = Json::parse(outcome.out);
  EXPECT_NE(record.at("attention"), "softmax");
  EXPECT_EQ(record.at("top")[0].at("label"), "otter");
}

INSTANTIATE_TEST_SUITE_P(Converted, BundledModels,
                         ::testing::Values("hedgehog", "hydra_last2", "window"),
                         [](const auto& model) { return std::string(model.param); });

TEST(ModelsCliTest, ModelsOfHuggingFaceLieInItsCache) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "models--org--tiny";
  folder.write("models--org--tiny/refs/main", "abc123");
  // As Hugging Face's tools lay it out: names that are links to blobs.
  folder.write("models--org--tiny/blobs/0");
  fs::create_directories(model / "snapshots/abc123");
  fs::copy_file(asset("models/deit_tiny_patch16_224.softmax.safetensors"), model / "blobs/0",
                fs::copy_options::overwrite_existing);
  fs::create_symlink("../../blobs/0", model / "snapshots/abc123/model.safetensors");
  const RunOptions cache{"", {}, {{"HF_HUB_CACHE", folder.path().string()}}};
  for (const char* word : {"hf-hub:org/tiny", "org/tiny", "hf-hub:org/tiny@abc123"}) {
    const Outcome found = run_well({"classify", kOtters, "-m", word, "--format jsonl"}, cache);
    EXPECT_EQ(found.records().at(0).at("top").at(0).at("label"), "otter");
  }
  run_well({"inspect hf-hub:org/tiny --format json"}, cache);
  EXPECT_EQ(run({"models path hf-hub:org/tiny"}, cache).out,
            (model / "snapshots/abc123").string() + "\n");
  expect_error(2, {"hydrascope models download org/large@v2"},
               {"classify", kOtters, "-m hf-hub:org/large@v2"}, cache);
  EXPECT_NE(run({"classify", kOtters, "-m org/large"}, cache)
                .err.find("hydrascope models download org/large"),
            std::string::npos);
}

}  // namespace
}  // namespace hydrascope::testing
