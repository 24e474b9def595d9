#include "tests/app/cli/visualize/visualize_cli.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace hydrascope::testing {
namespace visualize_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kOtters = asset("images/oakland-zoo-otters.jpg").string();

/// Width and height of a PNG file; 0 for another file.
std::pair<int, int> png_size(const fs::path& file) {
  const std::string bytes = read_bytes(file);
  if (bytes.size() < 24 || bytes.substr(1, 3) != "PNG") return {};
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = value * 256 + static_cast<unsigned char>(bytes[i]);
    return value;
  };
  return {number(16), number(20)};
}

TEST_F(VisualizeCliTest, AHeatmapOfThePicturesOwnSizeAndTheRecordOfTheContract) {
  const Outcome outcome = visualize({kOtters});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto record = nlohmann::ordered_json::parse(outcome.out);
  std::vector<std::string> keys;
  for (const auto& item : record.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "input", "class", "method", "layer", "grid",
                                            "min", "max", "cls_share", "files", "width", "height",
                                            "model_size", "attention", "attention_options",
                                            "device", "precision", "seconds"}));
  EXPECT_EQ(record.at("class").at("index"), 360);
  EXPECT_EQ(record.at("class").at("label"), "otter");
  EXPECT_EQ(record.at("method"), "hydra");
  EXPECT_EQ(record.at("layer"), 11);
  EXPECT_EQ(record.at("grid"), (Json{14, 14}));
  EXPECT_LT(record.at("min").get<double>(), 0) << "records are of both signs, whatever is drawn";
  EXPECT_GT(record.at("max").get<double>(), 0);
  EXPECT_EQ(record.at("files").at("heatmap"), "heatmaps/oakland-zoo-otters.heatmap.png");
  EXPECT_EQ(png_size(path("heatmaps/oakland-zoo-otters.heatmap.png")), (std::pair{1920, 1080}));
}

TEST_F(VisualizeCliTest, RawMapsHoldWhatTheRecordSays) {
  picture("p.ppm", 96, 64);
  const auto record = records({"p.ppm --native --method hydra --save-raw -o out"}).at(0);
  EXPECT_EQ(record.at("grid"), (Json{4, 6}));
  EXPECT_EQ(record.at("files").at("map"), "out/p.map.npy");
  const std::string bytes = read_bytes(path("out/p.map.npy"));
  EXPECT_NE(bytes.find("'shape': (4, 6), }"), std::string::npos);
  std::vector<float> values(24);
  ASSERT_GT(bytes.size(), values.size() * sizeof(float));
  std::memcpy(values.data(), bytes.data() + bytes.size() - values.size() * sizeof(float),
              values.size() * sizeof(float));
  const auto [smallest, largest] = std::ranges::minmax(values);
  EXPECT_NEAR(record.at("min").get<double>(), smallest, 1e-5);
  EXPECT_NEAR(record.at("max").get<double>(), largest, 1e-5);
  EXPECT_LT(smallest, 0) << "hydra's map is signed";
}

TEST_F(VisualizeCliTest, SeveralMapsAreASheetAndAnArchive) {
  picture("p.ppm", 96, 64);
  const std::vector<Json> maps =
      records({"p.ppm --method hydra,attention --class otter --class 360 --class n02442845 --head "
               "mean,max --save-raw"});
  // hydra: 2 heads x 2 classes, attention: 2 heads, one map for all classes.
  ASSERT_EQ(maps.size(), 6U);
  EXPECT_EQ(maps[0].at("class").at("label"), "otter");
  EXPECT_EQ(maps[1].at("class").at("label"), "mink");
  EXPECT_FALSE(maps[0].contains("head"));
  EXPECT_EQ(maps[2].at("head"), "max");
  EXPECT_EQ(maps[4].at("method"), "attention");
  for (const Json& map : maps) {
    EXPECT_EQ(map.at("files"), maps[0].at("files"));
    EXPECT_EQ(map.at("input"), "p.ppm");
  }
  EXPECT_EQ(maps[0].at("files").at("map"), "heatmaps/p.map.npz");
  const std::string archive = read_bytes(path("heatmaps/p.map.npz"));
  for (const char* name :
       {"hydra.layer11.head-mean.class360.npy", "hydra.layer11.head-max.class357.npy",
        "attention.layer11.head-max.class360.npy"})
    EXPECT_NE(archive.find(name), std::string::npos) << name;
  const auto [width, height] = png_size(path("heatmaps/p.heatmap.png"));
  EXPECT_GT(width, 2 * 96);
  EXPECT_GT(height, 2 * 64);
}

TEST_F(VisualizeCliTest, APictureOf1080pHasAMapOf68Rows) {
  picture("wide.ppm", 1920, 1080);
  const Json record = records({"wide.ppm --native --attn hydra --save-raw"}).at(0);
  EXPECT_EQ(record.at("grid"), (Json{68, 120}));
  EXPECT_EQ(record.at("model_size"), (Json{1088, 1920}));
  EXPECT_EQ(png_size(path("heatmaps/wide.heatmap.png")), (std::pair{1920, 1080}));
  const std::string bytes = read_bytes(path("heatmaps/wide.map.npy"));
  EXPECT_NE(bytes.find("'shape': (68, 120), }"), std::string::npos);
  EXPECT_EQ(bytes.size() % 64, (68U * 120 * sizeof(float)) % 64);
}

TEST_F(VisualizeCliTest, AllLayersAllHeadsAndTheBestClasses) {
  picture("p.ppm", 64, 64);
  EXPECT_EQ(records({"p.ppm --layer all"}).size(), 12U);
  const std::vector<Json> heads = records({"p.ppm --layer 0,last --head all"});
  ASSERT_EQ(heads.size(), 6U);
  EXPECT_EQ(heads[4].at("layer"), 11);
  EXPECT_EQ(heads[4].at("head"), "1");
  const std::vector<Json> classes = records({"p.ppm --topk 3"});
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_GE(classes[0].at("class").at("prob"), classes[1].at("class").at("prob"));
}

TEST_F(VisualizeCliTest, EveryMethodForSoftmaxHydraAndAMixture) {
  picture("p.ppm", 64, 64);
  for (const char* attention : {"softmax", "hydra:last2"}) {
    const bool is_mixed = std::string(attention) != "softmax";
    const std::string methods = is_mixed ? "hydra,rollout,grad-rollout,gradcam,attn-gradcam"
                                         : "hydra,attention,rollout,grad-rollout,gradcam,"
                                           "attn-gradcam";
    const std::vector<Json> maps =
        records({"p.ppm --img-size 64 --method", methods, "--attn", attention});
    ASSERT_EQ(maps.size(), is_mixed ? 5U : 6U);
    for (const Json& map : maps) EXPECT_TRUE(map.at("min").is_number()) << map.dump();
    if (is_mixed) {
      EXPECT_NE(maps[1].at("note").get<std::string>().find("layers 10-11"), std::string::npos)
          << maps[1].dump();
    }
  }
}

/// The objects of the bundled pictures have to be where the heat is.
TEST_F(VisualizeCliTest, TheHeatLiesOnTheObject) {
  struct Case {
    const char* picture;
    const char* label;
    // Part of the 14 x 14 cells, half-open, that holds the object and little else.
    int top, left, bottom, right;
  };
  for (const auto& [name, label, top, left, bottom, right] :
       {Case{"oakland-zoo-otters.jpg", "otter", 3, 1, 11, 14},
        Case{"otter-head.jpg", "otter", 8, 4, 14, 14},
        Case{"lake-sherburne.jpg", "alp", 2, 0, 10, 14}}) {
    SCOPED_TRACE(name);
    const auto record = records({asset("images/" + std::string(name)), "--save-raw"}).at(0);
    EXPECT_EQ(record.at("class").at("label"), label);
    const Npy map(path(record.at("files").at("map")));
    ASSERT_EQ(map.values.size(), 196U);
    double inside = 0;
    double all = 0;
    for (int cell = 0; cell < 196; ++cell) {
      const int row = cell / 14;
      const int column = cell % 14;
      const double heat = std::max(0.0F, map.values[static_cast<std::size_t>(cell)]);
      all += heat;
      if (row >= top && row < bottom && column >= left && column < right) inside += heat;
    }
    EXPECT_GT(inside / all, 0.85);
  }
}

TEST_F(VisualizeCliTest, EveryOptionDrawsSomethingElseAndChangesNoNumber) {
  picture("p.ppm", 96, 64);
  struct Drawn {
    std::string heatmap;
    std::string map;
    std::pair<int, int> size;
  };
  const auto drawn = [&](Words how) {
    how = Words{"p.ppm --img-size 64 --save-raw --precision float32"} + how;
    records(how);
    return Drawn{read_bytes(path("heatmaps/p.heatmap.png")), read_bytes(path("heatmaps/p.map.npy")),
                 png_size(path("heatmaps/p.heatmap.png"))};
  };
  const Drawn plain = drawn({});
  EXPECT_EQ(plain.size, (std::pair{96, 64}));
  EXPECT_EQ(drawn({}).heatmap, plain.heatmap) << "the same bits again";
  const std::vector<Words> over_the_picture{
      {"--sign", "both"}, {"--sign", "absolute"}, {"--cmap", "viridis"},    {"--blocks"},
      {"--alpha", "0.4"}, {"--no-fade"},          {"--outlier-perc", "60"}, {"--threshold", "0.5"}};
  std::set<std::string> different{plain.heatmap};
  for (const auto& option : over_the_picture) {
    const Drawn changed = drawn(option);
    EXPECT_TRUE(different.insert(changed.heatmap).second) << option.front();
    EXPECT_EQ(changed.size, plain.size) << option.front();
    EXPECT_EQ(changed.map, plain.map) << option.front() << " changes what is drawn alone";
  }
  EXPECT_EQ(drawn({"--sign positive --alpha 0.8 --fade --method hydra"}).heatmap, plain.heatmap)
      << "the defaults by their names";
  EXPECT_EQ(drawn({"--method auto"}).heatmap, plain.heatmap);
  EXPECT_NE(drawn({"--method attention"}).map, plain.map);

  const auto grows = [&](const Words& option, bool wider, bool higher) {
    const auto [width, height] = drawn(option).size;
    EXPECT_EQ(width > 2 * 96, wider) << option.front();
    EXPECT_EQ(height > 64 + 2 * 12, higher) << option.front();
  };
  grows({"--caption"}, false, true);
  grows({"--beside"}, true, false);
  EXPECT_GT(drawn({"--colorbar"}).size.first, 96 + 12);
  EXPECT_GT(drawn({"--colorbar-numbers"}).size.first, drawn({"--colorbar"}).size.first);
}

TEST_F(VisualizeCliTest, TextIsOneShortLinePerInput) {
  picture("p.ppm", 64, 64);
  const auto printed = [&](Words arguments) {
    arguments =
        Words{"visualize p.ppm", kOtters, "--device cpu --no-progress --precision float32"} +
        arguments;
    const Outcome outcome = run_well(arguments, {"", folder_.path(), {}});
    return outcome.lines();
  };
  const std::vector<std::string> one = printed({});
  ASSERT_EQ(one.size(), 2U);
  EXPECT_EQ(one[1], kOtters + "  otter 67.5 %  -> heatmaps/oakland-zoo-otters.heatmap.png");
  const std::vector<std::string> many = printed({"--layer all --topk 2"});
  ASSERT_EQ(many.size(), 2U);
  EXPECT_EQ(
      many[1],
      kOtters + "  otter 67.5 %, beaver 4.7 %  24 maps -> heatmaps/oakland-zoo-otters.heatmap.png");
  const auto [width, height] = png_size(path("heatmaps/oakland-zoo-otters.heatmap.png"));
  EXPECT_GT(width, 4 * height) << "twelve layers side by side, a row per class";
  const std::vector<std::string> verbose = printed({"--layer 0,11 -v"});
  ASSERT_EQ(verbose.size(), 4U);
  EXPECT_NE(verbose[3].find("hydra layer 11"), std::string::npos) << verbose[3];
}

TEST_F(VisualizeCliTest, FileFormats) {
  picture("p.ppm", 64, 64);
  const Json record = records({"p.ppm --image-format jpg --quality 50"}).at(0);
  EXPECT_EQ(record.at("files").at("heatmap"), "heatmaps/p.heatmap.jpg");
  EXPECT_EQ(read_bytes(path("heatmaps/p.heatmap.jpg")).substr(0, 3), "\xFF\xD8\xFF");
}

TEST_F(VisualizeCliTest, RecordFormats) {
  picture("p.ppm", 64, 64);
  const auto printed = [&](const std::string& format) {
    return run({"visualize p.ppm missing.jpg --format", format, "--device cpu"},
               {"", folder_.path(), {}});
  };
  const Json array = printed("json").json();
  ASSERT_EQ(array.size(), 2U);
  EXPECT_TRUE(array[1].contains("error"));
  const Outcome csv = printed("csv");
  ASSERT_EQ(csv.lines().size(), 3U);
  EXPECT_TRUE(csv.lines().at(0).starts_with("input,frame,time,index,"));
  EXPECT_EQ(printed("tsv").lines().size(), 3U);
  const Outcome text = printed("text");
  ASSERT_EQ(text.lines().size(), 2U);
  EXPECT_NE(text.lines().at(0).find("heatmaps/p.heatmap.png"), std::string::npos) << text.out;
  EXPECT_EQ(text.code, 3);
}

TEST_F(VisualizeCliTest, BadInputsHaveTheirOwnRecordsInOrderAndNamesAreNotShared) {
  picture("a/p.ppm", 64, 64);
  picture("b/p.ppm", 40, 50, 1);
  folder_.write("text.jpg", "no picture");
  const Outcome outcome = visualize({"a/p.ppm text.jpg missing.jpg b/p.ppm"});
  EXPECT_EQ(outcome.code, 3);
  const std::vector<Json> all = outcome.records();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1].at("error").at("code"), "unsupported_format");
  EXPECT_EQ(all[2].at("error").at("code"), "not_found");
  EXPECT_EQ(all[1].size(), 3U) << "schema, input, error";
  EXPECT_EQ(all[3].at("files").at("heatmap"), "heatmaps/p-2.heatmap.png");
  EXPECT_EQ(png_size(path("heatmaps/p.heatmap.png")), (std::pair{64, 64}));
  EXPECT_EQ(png_size(path("heatmaps/p-2.heatmap.png")), (std::pair{40, 50}));
  EXPECT_EQ(files_in("heatmaps"), 2U) << "nothing temporary is left";

  const Outcome strict = visualize({"--on-error fail missing.jpg a/p.ppm"});
  EXPECT_EQ(strict.code, 1);
  EXPECT_EQ(strict.records().size(), 1U);
}

TEST_F(VisualizeCliTest, WrongUsageSaysWhatIsRight) {
  picture("p.ppm", 64, 64);
  const auto refused = [&](Words arguments, std::vector<std::string> texts, int code = 2) {
    arguments.insert(arguments.begin(), "p.ppm");
    const Outcome outcome = visualize(arguments);
    EXPECT_EQ(outcome.code, code) << arguments.back();
    EXPECT_EQ(outcome.out, "");
    for (const std::string& text : texts)
      EXPECT_NE(outcome.err.find(text), std::string::npos) << text << " in: " << outcome.err;
  };
  refused({"--class oter"}, {"--class oter", "did you mean otter"});
  refused({"--class crane"}, {"2 classes", "134", "517"});
  refused({"--class 1000"}, {"0 to 999"});
  refused({"--method rolout"}, {"did you mean rollout?"});
  refused({"--method attention --attn hydra:last1"}, {"no attention map", "supports"});
  refused({"--layer 12"}, {"0 to 11"});
  refused({"--head 3"}, {"0 to 2"});
  refused({"--head max --method gradcam"}, {"one map for all heads"});
  refused({"--cmap jet"}, {"--cmap"});
  refused({"--alpha 1.5"}, {"--alpha"});
  refused({"-o -"}, {"expected a folder"});
  refused({"-o p.ppm"}, {"is an input of this run"});
  refused({"--caption --font p.ppm"}, {"p.ppm"}, 1);
  refused({"--font missing.ttf"}, {"missing.ttf"}, 1);
  const Outcome none = visualize({});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no input given"), std::string::npos);
}

TEST_F(VisualizeCliTest, APictureThatIsStoredTurnedIsShownUpright) {
  const fs::path turned = fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/pictures/good/exif.jpg";
  const Json record = records({turned.string()}).at(0);
  EXPECT_EQ(png_size(path("heatmaps/exif.heatmap.png")),
            (std::pair{record.at("width").get<int>(), record.at("height").get<int>()}));
  const Json stored = records({turned, "--exif ignore"}).at(0);
  EXPECT_EQ(stored.at("width"), record.at("height"));
}

TEST_F(VisualizeCliTest, AnInterruptWritesWhatIsFinished) {
  picture("p.ppm", 64, 64);
  Program program(
      {"visualize", "-", "--format", "jsonl", "--device", "cpu", "-b", "1", "--html", "page.html"},
      {"", folder_.path(), {}});
  program.type("p.ppm\n");
  for (int i = 0; i < 600 && program.output_so_far().empty(); ++i) usleep(50'000);
  program.signal(SIGINT);
  const Outcome outcome = program.wait_with_open_input();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(outcome.records().size(), 1U);
  EXPECT_EQ(png_size(path("heatmaps/p.heatmap.png")), (std::pair{64, 64}));
  EXPECT_TRUE(fs::exists(path("page.html"))) << "the page holds what was finished";
}

TEST_F(VisualizeCliTest, InputsAreNotOverwritten) {
  picture("a.ppm", 64, 48);
  folder_.write("a.heatmap.png", ppm(40, 40, 2));  // decoders go by content
  const std::string before = read_bytes(path("a.heatmap.png"));
  const auto both = records({"a.ppm a.heatmap.png -o ."});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(read_bytes(path("a.heatmap.png")), before);
  EXPECT_EQ(both[0].at("files").at("heatmap"), "./a-2.heatmap.png");
  EXPECT_EQ(png_size(path("a-2.heatmap.png")), (std::pair{64, 48}));
  const Outcome page = visualize({"a.ppm --html a.ppm"});
  EXPECT_EQ(page.code, 2);
  EXPECT_NE(page.err.find("is an input of this run"), std::string::npos) << page.err;
  const Outcome file = visualize({"a.ppm -o records.jsonl"});
  EXPECT_EQ(file.code, 2);
  EXPECT_NE(file.err.find("names a folder"), std::string::npos) << file.err;
}

TEST_F(VisualizeCliTest, AReaderThatGoesAwayEndsTheRunButNoFileInTheMiddle) {
  for (int i = 0; i < 30; ++i) picture("p" + std::to_string(i) + ".ppm", 64, 64);
  const std::string command = "cd '" + folder_.path().string() +
                              "' && '" HYDRASCOPE_PROGRAM
                              "' visualize '*.ppm' --no-progress --device cpu -b 1 --html page.html"
                              " 2>errors | head -n 1 >first";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read_bytes(path("first")).find("heatmaps/p0.heatmap.png"), std::string::npos);
  EXPECT_EQ(read_bytes(path("errors")), "");
  EXPECT_TRUE(fs::exists(path("page.html")));
  for (const fs::path& folder : {path("."), path("heatmaps")}) {
    for (const auto& entry : fs::directory_iterator(folder))
      EXPECT_EQ(entry.path().filename().string().find(".hydrascope-"), std::string::npos)
          << entry.path();
  }
}

TEST_F(VisualizeCliTest, HelpEnumeratesMethodsAndColours) {
  const Outcome outcome = run_well({"help attn"});
  for (const char* text :
       {"--method", "grad-rollout", "attn-gradcam", "viridis", "--frames-as-video"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
}

}  // namespace visualize_cli_test
}  // namespace hydrascope::testing
