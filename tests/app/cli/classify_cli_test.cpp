#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::testing {
namespace classify_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kOtters = asset("images/oakland-zoo-otters.jpg").string();

TEST(ClassifyCliTest, RecordsHaveTheSchemaOfTheContract) {
  const Outcome outcome = run_well({"classify", kOtters, "--format jsonl --device cpu"});
  EXPECT_EQ(outcome.err, "");
  const auto record = nlohmann::ordered_json::parse(outcome.out);
  std::vector<std::string> keys;
  for (const auto& item : record.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "input", "width", "height", "model_size",
                                            "tokens", "top", "device", "precision", "attention",
                                            "attention_options", "seconds"}));
  EXPECT_EQ(record.at("schema"), 1);
  EXPECT_EQ(record.at("input"), kOtters);
  EXPECT_EQ(record.at("width"), 1920);
  EXPECT_EQ(record.at("height"), 1080);
  EXPECT_EQ(record.at("model_size"), Json({224, 224}));
  EXPECT_EQ(record.at("tokens"), 197);
  EXPECT_EQ(record.at("device"), "cpu");
  EXPECT_TRUE(record.at("precision") == "float32" || record.at("precision") == "bfloat16");
  EXPECT_EQ(record.at("attention"), "softmax");
  EXPECT_GT(record.at("seconds").get<double>(), 0);
  const auto& top = record.at("top");
  ASSERT_EQ(top.size(), 5U);
  EXPECT_EQ(top[0].at("rank"), 1);
  EXPECT_EQ(top[0].at("index"), 360);
  EXPECT_EQ(top[0].at("id"), "n02444819");
  EXPECT_EQ(top[0].at("label"), "otter");
  for (std::size_t i = 1; i < 5; ++i)
    EXPECT_LE(top[i].at("prob").get<double>(), top[i - 1].at("prob").get<double>());
}

TEST(ClassifyCliTest, PrecisionIsTheFasterOneUnlessItIsPinned) {
  const auto record = [](Words more) {
    more = Words{"classify", kOtters, "--format jsonl --device cpu"} + more;
    const Outcome outcome = run_well(more);
    return std::pair(Json::parse(outcome.out).at("precision").get<std::string>(), outcome.err);
  };
  const auto [chosen, said] = record({"-v"});
  const std::size_t why = said.find("precision: " + chosen + " (");
  ASSERT_NE(why, std::string::npos) << said;
  const std::string reason = said.substr(why, said.find('\n', why) - why);
  const bool measured = reason.find(" ms, in ") != std::string::npos;
  EXPECT_TRUE(measured || reason ==
                              "precision: float32 (this processor has no instructions for "
                              "bfloat16)")
      << reason;
  for (const Words& pinned : {Words{"--deterministic -v"},
                              {"--precision", "float32", "-v"},
                              {"--kernels", "reference", "-v"}}) {
    const auto [precision, silent] = record(pinned);
    EXPECT_EQ(precision, "float32") << pinned.front();
    EXPECT_EQ(silent.find("precision: "), std::string::npos) << silent;
  }
}

TEST(ClassifyCliTest, BadInputsHaveTheirOwnRecordsAndTheGoodOnesAreClassified) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(1, 1)).string();
  const std::string jpeg = read_bytes(kOtters);
  fs::create_directory(folder.path() / "without_images");
  folder.write("without_images/readme.txt", "no image");
  // IHDR of a PNG that declares 100000 x 100000 pixels; its checksum is right.
  const std::string huge(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\x01\x86\xa0\0\x01\x86\xa0\x08\x02\0\0\0\x35\xd8\x2a\x0b",
      33);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {folder.write("empty.jpg", "").string(), "empty"},
      {folder.write("truncated.jpg", jpeg.substr(0, jpeg.size() / 2)).string(), "decode_failed"},
      {folder.write("text.jpg", "this is no picture at all").string(), "unsupported_format"},
      {(folder.path() / "without_images").string(), "empty"},
      {(folder.path() / "missing.jpg").string(), "not_found"},
      {folder.write("huge.png", huge).string(), "too_large"},
  };
  Words arguments{"classify --format jsonl", good};
  for (const auto& [path, code] : cases) {
    arguments.push_back(path);
    arguments.push_back(good);
  }
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::vector<Json> records = outcome.records();
  ASSERT_EQ(records.size(), 2 * cases.size() + 1);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& bad = records[2 * i + 1];
    EXPECT_EQ(bad.at("input"), cases[i].first);
    ASSERT_TRUE(bad.contains("error")) << bad.dump();
    EXPECT_EQ(bad.at("error").at("code"), cases[i].second) << bad.dump();
    EXPECT_FALSE(bad.at("error").at("message").get<std::string>().empty());
    EXPECT_EQ(bad.size(), 3U) << "schema, input, error";
    EXPECT_TRUE(records[2 * i + 2].contains("top")) << records[2 * i + 2].dump();
  }
}

// Only the crop of what would be 256x7680000 pixels is computed.
TEST(ClassifyCliTest, ThinPicturesAreClassified) {
  const TemporaryFolder folder;
  const std::string wide = folder.write("wide.ppm", ppm(30000, 1)).string();
  const std::string tall = folder.write("tall.ppm", ppm(1, 20000)).string();
  const Outcome outcome = run({"classify --format jsonl", wide, tall});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const Json& record : outcome.records()) EXPECT_TRUE(record.contains("top")) << record.dump();
  const Outcome tiles = run({"classify --format jsonl --views tiles", wide});
  EXPECT_EQ(tiles.code, 3);
  const Json error = tiles.records().at(0).at("error");
  EXPECT_EQ(error.at("code"), "too_large");
  EXPECT_NE(error.at("message").get<std::string>().find("--views whole"), std::string::npos);
}

TEST(ClassifyCliTest, UnreadableFile) {
  const TemporaryFolder folder;
  fs::path file = folder.write("secret.jpg", "x");
  fs::permissions(file, fs::perms::none);
  if (geteuid() == 0) {
    // Nothing is unreadable for root but files that fail when they are read.
    file = folder.path() / "memory.jpg";
    fs::create_symlink("/proc/self/mem", file);
  }
  const Outcome outcome = run({"classify --format jsonl", file});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.records().at(0).at("error").at("code"), "unreadable") << outcome.out;
}

TEST(ClassifyCliTest, FailsFastWhenAsked) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(64, 48)).string();
  const Outcome outcome =
      run({"classify --format jsonl --on-error fail", folder.path() / "missing", good});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.records().size(), 1U);
}

TEST(ClassifyCliTest, InputForms) {
  const TemporaryFolder folder;
  for (const char* name : {"b.ppm", "a,b c.ppm", "sub/c.ppm", "-dash.ppm"})
    folder.write(name, ppm(40, 40));
  folder.write("list.txt", "b.ppm\nsub/c.ppm\n");
  const RunOptions here{"", folder.path(), {}};
  const auto inputs = [&](Words arguments, const RunOptions& options) {
    arguments = Words{"classify --format jsonl --topk 1"} + arguments;
    const Outcome outcome = run(arguments, options);
    EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    std::vector<std::string> names;
    for (const Json& record : outcome.records()) names.push_back(record.at("input"));
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(inputs({"."}, here), (Names{"./-dash.ppm", "./a,b c.ppm", "./b.ppm"}));
  EXPECT_EQ(inputs({". --recursive"}, here).size(), 4U);
  EXPECT_EQ(inputs({"**/*.ppm"}, here).size(), 4U);
  EXPECT_EQ(inputs({"@list.txt"}, here), (Names{"b.ppm", "sub/c.ppm"}));
  EXPECT_EQ(inputs({"-i b.ppm --source", std::string("a,b c.ppm")}, here),
            (Names{"b.ppm", "a,b c.ppm"}));
  EXPECT_EQ(inputs({"-- -dash.ppm"}, here), (Names{"-dash.ppm"}));
  EXPECT_EQ(inputs({"-"}, {"sub/c.ppm\nb.ppm\n", folder.path(), {}}),
            (Names{"sub/c.ppm", "b.ppm"}));
}

TEST(ClassifyCliTest, FormatsAndOutputFiles) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(64, 48)).string();
  const std::string missing = (folder.path() / "missing.jpg").string();
  const fs::path json_file = folder.path() / "r.json";
  EXPECT_EQ(run({"classify", good, missing, "-o", json_file, "--topk 3"}).code, 3);
  const Json array = Json::parse(read_bytes(json_file));
  ASSERT_EQ(array.size(), 2U);
  EXPECT_EQ(array[0].at("top").size(), 3U);
  EXPECT_TRUE(array[1].contains("error"));
  const Outcome csv = run({"classify", good, "--format csv --topk 2"});
  EXPECT_EQ(csv.lines().size(), 3U);
  EXPECT_TRUE(csv.lines().at(0).starts_with("input,"));
  const Outcome text = run({"classify", good});
  EXPECT_EQ(text.lines().size(), 6U);
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "no colours into a file";
  EXPECT_NE(run({"classify", good, "--color always"}).out.find('\x1b'), std::string::npos);
  expect_error(1, {"No such file or directory"}, {"classify", good, "-o /nonexistent/x.json"});
  expect_error(1, {"Is a directory"}, {"classify", good, "-o", folder.path()});
}

TEST(ClassifyCliTest, TwoRunsDoNotWriteOneFile) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(64, 48)).string();
  const fs::path file = folder.write("r.jsonl", "of the other run");
  {
    const LockOfAnother other(folder.write("r.jsonl.part", "what it has so far"));
    expect_error(2, {"another run (process " + std::to_string(getpid()) + ") is writing this file"},
                 {"classify", good, "-o", file});
    EXPECT_EQ(read_bytes(file), "of the other run");
  }
  run_well({"classify", good, "-o", file});
  EXPECT_TRUE(read_bytes(file).starts_with("{\"schema\":1,")) << "what it held is replaced";
  EXPECT_FALSE(fs::exists(folder.path() / "r.jsonl.part"));
}

TEST(ClassifyCliTest, GoesOnWhereARunStopped) {
  const TemporaryFolder folder;
  for (unsigned i = 0; i < 5; ++i) folder.write("p/" + std::to_string(i) + ".ppm", ppm(32, 24, i));
  folder.write("p/3.ppm", "no picture");
  const fs::path file = folder.path() / "r.jsonl";
  const std::vector<std::string> command{"classify", (folder.path() / "p").string(), "-o",
                                         file.string()};
  const auto again = [&] {
    std::vector<std::string> words = command;
    words.emplace_back("--resume");
    return run(words);
  };
  const auto inputs_of = [&] {
    std::istringstream lines(read_bytes(file));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);)
      names.push_back(fs::path(Json::parse(line).at("input")).filename());
    return names;
  };
  const std::vector<std::string> all{"0.ppm", "1.ppm", "2.ppm", "3.ppm", "4.ppm"};
  ASSERT_EQ(again().code, 3) << "there is nothing to go on from";
  const std::string whole = read_bytes(file);
  ASSERT_EQ(inputs_of(), all);
  // As a kill leaves it: two records, and a part of the third.
  const std::size_t second = whole.find('\n', whole.find('\n') + 1) + 1;
  folder.write("r.jsonl.part", whole.substr(0, second + 20));
  fs::remove(file);
  const Outcome resumed = again();
  EXPECT_EQ(resumed.code, 3) << resumed.err;
  EXPECT_NE(resumed.err.find("2 inputs have their records"), std::string::npos) << resumed.err;
  EXPECT_EQ(inputs_of(), all);
  EXPECT_TRUE(read_bytes(file).starts_with(whole.substr(0, second)));
  // All is done, the error of 3.ppm included.
  const std::string done = read_bytes(file);
  EXPECT_EQ(again().code, 3);
  EXPECT_EQ(read_bytes(file), done);
  const Outcome others =
      run({"classify", (folder.path() / "p/4.ppm").string(), "-o", file, "--resume"});
  EXPECT_EQ(others.code, 2);
  EXPECT_NE(others.err.find("of other inputs"), std::string::npos) << others.err;
  EXPECT_EQ(read_bytes(file), done);
  EXPECT_EQ(run({"classify", "x.ppm", "--resume"}).code, 2);
  EXPECT_EQ(run({"classify", "x.ppm", "-o", "r.csv", "--resume"}).code, 2);
}

TEST(ClassifyCliTest, SavesLogitsAndInputs) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(64, 48)).string();
  const fs::path logits_file = folder.path() / "logits.npy";
  const fs::path input_file = folder.path() / "input.npy";
  EXPECT_EQ(run({"classify missing.jpg", good, "--save-logits", logits_file, "--save-input",
                 input_file, "--format jsonl"})
                .code,
            3);
  const Npy logits(logits_file);
  EXPECT_EQ(logits.shape, (std::vector<std::int64_t>{2, 1000}));
  EXPECT_TRUE(std::isnan(logits.values.at(0)) && std::isnan(logits.values.at(999)));
  EXPECT_FALSE(std::isnan(logits.values.at(1000)));
  const Npy input(input_file);
  EXPECT_EQ(input.shape, (std::vector<std::int64_t>{2, 3, 224, 224}));
  EXPECT_TRUE(std::isnan(input.values.at(0)));
  EXPECT_LT(std::abs(input.values.at(3 * 224 * 224)), 3.0F);
}

TEST(ClassifyCliTest, NativeSizeAndFit) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("p.ppm", ppm(100, 60)).string();
  const auto record = [&](Words arguments) {
    arguments = Words{"classify --format jsonl", picture} + arguments;
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    return outcome.records().at(0);
  };
  const Json padded = record({"--native"});
  EXPECT_EQ(padded.at("model_size"), Json({64, 112}));
  EXPECT_EQ(padded.at("tokens"), 1 + 4 * 7);
  EXPECT_NE(padded.at("note").get<std::string>().find("padded 60x100 to 64x112 (HxW)"),
            std::string::npos)
      << padded.dump();
  const Json cropped = record({"--native --fit crop"});
  EXPECT_EQ(cropped.at("model_size"), Json({48, 96}));
  EXPECT_TRUE(cropped.contains("note"));
  const Json resized = record({"--native --fit=resize"});
  EXPECT_EQ(resized.at("model_size"), Json({64, 96}));
  EXPECT_TRUE(resized.contains("note"));
  EXPECT_EQ(record({"--img-size 96x160"}).at("model_size"), Json({96, 160}));
  EXPECT_EQ(record({"--input-size 3 96 160"}).at("model_size"), Json({96, 160}));
  EXPECT_EQ(record({"--img-size 100"}).at("model_size"), Json({112, 112}));
}

TEST(ClassifyCliTest, FullHdStaysFullHd) {
  const Outcome outcome = run_well({"classify --native --format jsonl", kOtters});
  const Json record = outcome.records().at(0);
  EXPECT_EQ(record.at("model_size"), Json({1088, 1920}));
  EXPECT_EQ(record.at("tokens"), 8161);
  EXPECT_NE(record.at("note").get<std::string>().find("padded"), std::string::npos);
  EXPECT_NE(
      outcome.err.find("was trained at 224x224 (HxW); answers at 1088x1920 are less accurate"),
      std::string::npos)
      << outcome.err;
}

TEST(ClassifyCliTest, LargeSizesHaveOneNote) {
  const TemporaryFolder folder;
  const std::string small = (folder.path() / "small.safetensors").string();
  run_well({"models create --arch deit_tiny_patch16_32 -o", small});
  const std::string picture = folder.write("a.ppm", ppm(96, 96)).string();
  const auto notes = [&](const Words& more) {
    Words words = Words{"classify -m", small, picture, picture, "-b 1"} + more;
    const Outcome outcome = run_well(words);
    const std::string_view text = outcome.err;
    const std::size_t at = text.find("was trained at 32x32");
    if (at == std::string_view::npos) return 0;
    return text.find("was trained at", at + 1) == std::string_view::npos ? 1 : 2;
  };
  EXPECT_EQ(notes({"--native"}), 1);
  EXPECT_EQ(notes({"--img-size 96"}), 1);
  EXPECT_EQ(notes({"--img-size 80"}), 0) << "2.5 times the edge is not far";
  EXPECT_EQ(notes({"--native -q"}), 0);
}

TEST(ClassifyCliTest, PrintsTheTransformAndWhereItComesFrom) {
  const Outcome bundled = run_well({"classify --print-transform"});
  EXPECT_NE(bundled.out.find("transform: resize 256 (bicubic, antialias) -> centre crop 224"),
            std::string::npos)
      << bundled.out;
  EXPECT_NE(bundled.out.find("[from metadata of deit_tiny"), std::string::npos) << bundled.out;
  const Outcome changed = run({"classify --print-transform --crop_pct 1.0 --mean .5 .5 .5"});
  EXPECT_NE(changed.out.find("crop_pct from --crop"), std::string::npos) << changed.out;
  EXPECT_NE(changed.out.find("mean from --mean"), std::string::npos) << changed.out;
  EXPECT_NE(changed.out.find("(0.5, 0.5, 0.5)"), std::string::npos) << changed.out;
}

TEST(ClassifyCliTest, ConfigFilesAreOverruledByFlags) {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.ppm", ppm(64, 48)).string();
  const std::string config = folder.write("c.json", R"({"topk": 2, "img_size": "96"})").string();
  const Json record =
      run({"classify", good, "--format jsonl -c", config, "--topk 4"}).records().at(0);
  EXPECT_EQ(record.at("top").size(), 4U);
  EXPECT_EQ(record.at("model_size"), Json({96, 96}));
  expect_error(2, {"topk"}, {"classify", good, "-c", folder.write("d.json", R"({"topkk": 2})")});
  const Outcome dumped = run({"classify --dump-config --topk 4"});
  EXPECT_EQ(dumped.json().at("topk"), 4);
}

TEST(ClassifyCliTest, Int8IsInTheRecord) {
  const auto record = [](Words more) {
    Words words = Words{"classify", kOtters, "--format jsonl --device cpu"} + more;
    const Outcome outcome = run_well(words);
    return Json::parse(outcome.out);
  };
  const Json int8 = record({"--precision int8"});
  EXPECT_EQ(int8.at("precision"), "int8");
  EXPECT_EQ(int8.at("approximations"), Json({{"calibration", "bundled"}}));
  EXPECT_EQ(int8.at("top")[0].at("index"), 360);
  EXPECT_EQ(record({"--precision int8 --calibration none"}).at("approximations"),
            Json({{"calibration", "none"}}));
  EXPECT_FALSE(int8.contains("kernels"));
  EXPECT_EQ(record({"--attn aft:11"}).at("kernels"), "fused+modules");
}

TEST(ClassifyCliTest, CalibrationNamesWhatItCannotRead) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "broken.jpg") << "no picture";
  const std::string calibration = folder.path().string();
  expect_error(2, {"no picture to calibrate on"},
               {"classify", kOtters, "--precision int8 --calibration", calibration});
  fs::copy_file(kOtters, folder.path() / "a.jpg");
  const Outcome some =
      run_well({"classify", kOtters, "--precision int8 --calibration", calibration});
  EXPECT_NE(some.err.find("broken.jpg"), std::string::npos) << some.err;
}

TEST(ClassifyCliTest, WrongUsageIsExitCodeTwoWithAHint) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"classify", kOtters, "--img-sise", "3"}, "--img-size"},
      {{"clasify"}, "classify"},
      {{"classify"}, "no input"},
      {{"classify", kOtters, "-m", "deit_tiny_patch16_224.softmix"},
       "deit_tiny_patch16_224.softmax"},
      {{"classify", kOtters, "-m", "vit_base_patch16_224"}, "--checkpoint"},
      {{"classify", kOtters, "-m", "hf-hub:timm/x"}, "models download timm/x"},
      {{"classify", kOtters, "--attn", "softmax:0-9,hidra:10-11"}, "did you mean hydra?"},
      {{"classify", kOtters, "--attn", "retention"}, "this build has: adaptive_span, aft, "},
      {{"classify", kOtters, "--attn", "softmax:12"}, "layers go from 0 to 11"},
      {{"classify", kOtters, "--precision", "int4"}, "int8"},
      {{"classify", kOtters, "--precision", "int8", "--kernels", "reference"}, "8-bit"},
      {{"classify", kOtters, "--calibration", "none"}, "only int8"},
      {{"classify", kOtters, "--device", "cpu", "--fp16"}, "--precision bfloat16"},
      {{"classify", kOtters, "--attn", "hydra,aft"}, "'hydra'"},
      {{"classify", kOtters, "--topk", "0"}, "--topk"},
      {{"classify", kOtters, "--topk", "5abc"}, "5abc"},
      {{"classify", kOtters, "--crop-pct", "1.5"}, "1.5"},
      {{"classify", kOtters, "--fit", "stretch"}, "pad"},
      {{"classify", kOtters, "--labels", "/nonexistent"}, "/nonexistent"},
      {{"classify", kOtters, "--native", "--img-size", "300"}, "--native"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments.back() << ": " << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("error: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(expected), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << "nothing but results on standard output";
  }
}

TEST(ClassifyCliTest, RunsFromAnyFolderAndWithOtherAssets) {
  const TemporaryFolder folder;
  run_well({"classify", kOtters, "--topk 1"}, {"", folder.path(), {}});
  expect_error(1, {"HYDRASCOPE_ASSETS"}, {"classify", kOtters},
               {"", {}, {{"HYDRASCOPE_ASSETS", folder.path()}}});
  fs::create_directory_symlink(asset(""), folder.path() / "assets");
  run_well({"classify", kOtters}, {"", {}, {{"HYDRASCOPE_ASSETS", folder.path() / "assets"}}});
}

TEST(ClassifyCliTest, StopsOnSigintAfterWritingWhatIsFinished) {
  Program program({"classify --format jsonl -"}, {});
  program.type(kOtters + "\n");
  Program::wait_until("a record", [&] { return program.output_so_far().ends_with('\n'); });
  program.signal(SIGINT);
  const Outcome outcome = program.wait_with_open_input();
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.records().size(), 1U);
}

TEST(ClassifyCliTest, ResultsDoNotDependOnBatchWorkersOrThreads) {
  const TemporaryFolder folder;
  Words base{"classify --format jsonl"};
  for (unsigned i = 0; i < 9; ++i)
    base.push_back(
        folder.write(std::to_string(i) + ".ppm", ppm(50 + static_cast<int>(i), 40, i)).string());
  const auto logits = [&](Words more) {
    const fs::path file = folder.path() / "l.npy";
    more.insert(more.begin(), base.begin(), base.end());
    more += Words{"--save-logits", file};
    run_well(more);
    return Npy(file).values;
  };
  const std::vector<float> one = logits({"-b 1 -j 1 --threads 1"});
  const std::vector<float> many = logits({"-b 4 -j 3 --threads 2"});
  ASSERT_EQ(one.size(), many.size());
  for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], many[i], 2e-4) << i;
}

}  // namespace classify_cli_test
}  // namespace hydrascope::testing
