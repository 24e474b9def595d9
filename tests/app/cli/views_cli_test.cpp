// `--views`: a photograph shrunk to the size of a tile, at the left edge of a large picture, where a centre
// crop of the whole does not see it.
#include "model/image/decode.h"
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace views_cli_test {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int kOtter = 360;
constexpr int kWidth = 1200;
constexpr int kHeight = 672;
constexpr std::int64_t kTiles = 4 * 7;
constexpr int kLeft = 8;
constexpr int kTop = 300;
constexpr int kShrunk = 6;  // 160x284 pixels of 960x1707

/// As a binary PPM: grey that brightens to the right, and the means of blocks of the photograph.
std::string scene() {
  const image::Picture photo = image::read_picture(asset("images/otter-head.jpg"), {});
  const int rows = photo.height / kShrunk;
  const int columns = photo.width / kShrunk;
  std::string bytes = "P6\n" + std::to_string(kWidth) + " " + std::to_string(kHeight) + "\n255\n";
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const int row = y - kTop;
      const int column = x - kLeft;
      const bool in_photo = row >= 0 && row < rows && column >= 0 && column < columns;
      for (int c = 0; c < 3; ++c) {
        int sum = (90 + 60 * x / kWidth) * kShrunk * kShrunk;
        if (in_photo) {
          sum = 0;
          for (int i = row * kShrunk; i < (row + 1) * kShrunk; ++i)
            for (int j = column * kShrunk; j < (column + 1) * kShrunk; ++j)
              sum += photo.rgb[static_cast<std::size_t>((i * photo.width + j) * 3 + c)];
        }
        bytes += static_cast<char>(sum / (kShrunk * kShrunk));
      }
    }
  }
  return bytes;
}

/// Share of the photograph that lies in the box.
double seen_share(const Json& box) {
  const auto common = [](int begin, int length, int from, int size) {
    return std::max(0, std::min(begin + length, from + size) - std::max(begin, from));
  };
  constexpr int kPhotoWidth = 1707 / kShrunk;
  constexpr int kPhotoHeight = 960 / kShrunk;
  return double(common(box.at("left"), box.at("width"), kLeft, kPhotoWidth)) *
         common(box.at("top"), box.at("height"), kTop, kPhotoHeight) / (kPhotoWidth * kPhotoHeight);
}

class ViewsCliTest : public ::testing::Test {
 protected:
  Outcome hydrascope(const std::string& command, Words more) const {
    return run(Words{command, "--device cpu"} + more, {"", folder_.path(), {}});
  }
  std::vector<Json> records(const std::string& command, Words more) const {
    more += Words{"--format jsonl"};
    const Outcome outcome = hydrascope(command, more);
    EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    return outcome.records();
  }
  void refused(const std::string& command, const Words& more, const std::string& text) const {
    const Outcome outcome = hydrascope(command, more);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  }

  TemporaryFolder folder_;
  std::string scene_ = folder_.write("scene.ppm", scene()).string();
};

TEST_F(ViewsCliTest, TilesFindWhatTheWholeDoesNotShow) {
  const Json whole = records("classify", {scene_}).at(0);
  EXPECT_FALSE(whole.contains("views"));
  for (const Json& found : whole.at("top")) {
    EXPECT_NE(found.at("index"), kOtter);
    EXPECT_FALSE(found.contains("box"));
  }
  for (const char* views : {"tiles", "pyramid"}) {
    const Json record = records("classify", {scene_, "--views", views}).at(0);
    EXPECT_EQ(record.at("views"), views);
    EXPECT_EQ(record.at("num_views"), views == std::string("tiles") ? kTiles : kTiles + 1);
    EXPECT_EQ(record.at("model_size"), Json({224, 224}));
    EXPECT_EQ(record.at("tokens"), 197);
    EXPECT_EQ(record.at("width"), kWidth);
    const Json& best = record.at("top").at(0);
    EXPECT_EQ(best.at("index"), kOtter) << record.dump();
    EXPECT_GT(best.at("prob"), 0.5);
    EXPECT_GT(seen_share(best.at("box")), 0.5) << best.dump();
    for (std::size_t i = 1; i < 5; ++i)
      EXPECT_LE(record.at("top")[i].at("prob"), record.at("top")[i - 1].at("prob"));
  }
  EXPECT_THAT(hydrascope("classify", {scene_, "--views tiles"}).out,
              HasSubstr("672x1200 -> 28 of 224x224 (HxW)  197 tokens"));
}

TEST_F(ViewsCliTest, WholeAndNativeAreWhatTheyWere) {
  const auto top = [&](const Words& more) {
    return records("classify", Words{asset("images/otter-head.jpg"),
                                     "--deterministic -m deit_tiny_patch16_224.hydra_last2"} +
                                   more)
        .at(0)
        .at("top");
  };
  EXPECT_EQ(top({"--views whole"}), top({}));
  EXPECT_EQ(top({"--views native"}), top({"--native"}));
}

TEST_F(ViewsCliTest, BatchesAndThreadsChangeNothing) {
  const std::string small = asset("images/otter-head.jpg").string();
  const std::vector<std::string> inputs{scene_, "missing.jpg", small, scene_};
  const auto all = [&](Words more) {
    more += inputs;
    more += Words{"--views tiles --deterministic --format jsonl"};
    const Outcome outcome = hydrascope("classify", more);
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    std::vector<Json> records = outcome.records();
    for (Json& record : records) record.erase("seconds");
    return records;
  };
  const std::vector<Json> one = all({"-b 1 -j 1"});
  ASSERT_EQ(one.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(one[i].at("input"), inputs[i]);
  EXPECT_EQ(one[1].at("error").at("code"), "not_found");
  EXPECT_EQ(one[3], one[0]);
  EXPECT_EQ(all({"-b 9 -j 4"}), one);
}

TEST_F(ViewsCliTest, EvaluateScoresTheMostProbableView) {
  folder_.write("set/scene.ppm", scene());
  const std::string labels =
      folder_.write("labels.csv", "file,label\nscene.ppm," + std::to_string(kOtter) + "\n")
          .string();
  const std::vector<std::string> set{"set", "--labels-csv", labels, "--format", "json"};
  const auto scores = [&](const std::string& views) {
    Words words = set + Words{"--views", views};
    const Outcome outcome = hydrascope("evaluate", words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  const Json whole = scores("whole");
  EXPECT_EQ(whole.at("top1"), 0.0);
  EXPECT_EQ(whole.at("views"), "whole");
  EXPECT_GT(whole.at("nll"), 0.0);
  const Json tiles = scores("tiles");
  EXPECT_EQ(tiles.at("top1"), 100.0);
  EXPECT_EQ(tiles.at("top5"), 100.0);
  EXPECT_EQ(tiles.at("views"), "tiles");
  EXPECT_EQ(tiles.at("images"), 1);
  EXPECT_TRUE(tiles.at("nll").is_null()) << "the largest of many probabilities are no distribution";
  EXPECT_TRUE(tiles.at("brier").is_null());
  EXPECT_LT(tiles.at("ece"), 0.5);
  for (const Words& other : {Words{"--save-logits x.npy"},
                             {"--against-attn", "hydra"},
                             {"--measure", "deletion"},
                             {"--diagnostics", "x.json"}}) {
    Words words = set + Words{"--views tiles"};
    words += other;
    refused("evaluate", words, other.front() + " with --views tiles");
  }
}

TEST_F(ViewsCliTest, MapsLieInTheViewThatFoundTheClass) {
  const std::vector<Json> maps =
      records("visualize", {scene_, "--views tiles --topk 2 --save-raw -o two"});
  ASSERT_EQ(maps.size(), 2U);
  EXPECT_EQ(maps[0].at("class").at("index"), kOtter);
  EXPECT_EQ(maps[0].at("views"), "tiles");
  EXPECT_EQ(maps[0].at("num_views"), kTiles);
  EXPECT_EQ(maps[0].at("grid"), Json({14, 14}));
  EXPECT_GT(maps[0].at("class").at("prob"), 0.5);
  EXPECT_GT(seen_share(maps[0].at("class").at("box")), 0.5);
  EXPECT_TRUE(maps[1].at("class").contains("box"));
  const Json named =
      records("visualize",
              {scene_, "--views pyramid --class otter --method attention --alpha 0 -o one"})
          .at(0);
  const Json& box = named.at("class").at("box");
  EXPECT_GT(seen_share(box), 0.5);
  const image::Picture drawn =
      image::read_picture(folder_.path() / named.at("files").at("heatmap").get<std::string>(), {});
  ASSERT_EQ(drawn.width, kWidth);
  ASSERT_EQ(drawn.height, kHeight);
  const image::Picture picture = image::read_picture(scene_, {});
  const auto red = [](const image::Picture& from, int x, int y) {
    return static_cast<int>(from.rgb.at(static_cast<std::size_t>((y * from.width + x) * 3)));
  };
  const int inside_x = box.at("left").get<int>() + box.at("width").get<int>() / 2;
  const int inside_y = box.at("top").get<int>() + box.at("height").get<int>() / 2;
  EXPECT_EQ(red(drawn, inside_x, inside_y), red(picture, inside_x, inside_y));
  EXPECT_NEAR(red(drawn, 1100, 50), 0.6 * red(picture, 1100, 50), 1) << "far away it is dimmed";
}

TEST_F(ViewsCliTest, WhatNeedsOneViewIsRefusedByName) {
  refused("classify", {scene_, "--views tiles --save-logits x.npy"},
          "--save-logits with --views tiles");
  refused("classify", {scene_, "--views pyramid --save-input x.npy"},
          "--save-input with --views pyramid");
  refused("classify", {scene_, "--native --views tiles"}, "--native with --views tiles");
  refused("classify", {scene_, "--views native --img-size 64"}, "--native with --img-size");
  refused("visualize", {scene_, "--views tiles --html x.html"}, "--html with --views tiles");
  refused("visualize", {scene_, "--views tiles --frames-as-video 2"},
          "--frames-as-video with --views tiles");
  folder_.write("clip.mp4", "no video, by its name alone");
  const Outcome video = hydrascope("visualize", {"clip.mp4 --views tiles --format jsonl"});
  EXPECT_EQ(video.code, 3) << video.err;
  EXPECT_THAT(video.out, HasSubstr("is a video; --views tiles draws pictures"));
}

}  // namespace views_cli_test
}  // namespace hydrascope::testing
