// `hydrascope convert` that trains, as a user runs it: a tiny architecture on pictures that the
// test draws.
#include "tests/app/cli/distill_cli.h"

#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/sha256.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(DistillCli, WritesAWholeModelAndAReport) {
  const std::string html = in("report.html").string();
  const std::string json = in("report.json").string();
  const Json report =
      run_well(command("out.safetensors", {"--attn hedgehog,hydra:last2 --format json --report",
                                           html, "--report", json, "--eval", in("pictures"),
                                           "--labels", folder_.write("labels.txt", "even\nodd\n")}))
          .json();
  EXPECT_EQ(report["attention_before"], "softmax");
  EXPECT_EQ(report["attention"], "hedgehog:0-9,hydra:10-11");
  EXPECT_EQ(report["attention_options"]["hydra.feature_scale"], "on");
  EXPECT_EQ(report["attention_options"]["hedgehog.variant"], "softmax2");
  EXPECT_EQ(report["complete"], true);
  // About a quarter: which ones depends on the pictures' names alone.
  const std::int64_t held_out = report["held_out_images"];
  EXPECT_GE(held_out, 1);
  EXPECT_LE(held_out, 12);
  EXPECT_EQ(report["eval_images"], 24);
  EXPECT_LE(report["divergence"], report["divergence_before"]);
  ASSERT_EQ(report["stages"].size(), 3);
  EXPECT_EQ(report["stages"][0]["stage"], "maps");
  EXPECT_EQ(report["stages"][2]["images"], 2 * (24 - held_out) / 4 * 4);  // whole batches
  ASSERT_EQ(report["layers"].size(), 12);
  EXPECT_LT(report["layers"][11]["error_after"], report["layers"][11]["error_before"]);
  EXPECT_EQ(report["recipe"]["lr"], 6e-5);
  EXPECT_EQ(Json::parse(read_bytes(json)), report);
  const std::string page = read_bytes(html);
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("hedgehog:0-9,hydra:10-11"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("src=")));

  const auto file = checkpoint::SafetensorsFile::open(in("out.safetensors"));
  EXPECT_EQ(file.metadata().at("attention"), "hedgehog:0-9,hydra:10-11");
  EXPECT_EQ(file.metadata().at("parent_sha256"),
            checkpoint::sha256_of_file(in("teacher.safetensors")));
  const Json recipe = Json::parse(file.metadata().at("recipe"));
  EXPECT_EQ(recipe["steps-maps"], 4);
  EXPECT_EQ(recipe["scale"], Json({0.3, 1.0}));
  EXPECT_EQ(recipe["processes"], 1);
  EXPECT_TRUE(recipe["amp-dtype"] == "float32" || recipe["amp-dtype"] == "bfloat16");
  EXPECT_FALSE(recipe.contains("from"));
  EXPECT_EQ(file.metadata().at("complete"), "yes");
  EXPECT_NE(file.metadata().at("transform"), "");
  for (const char* name : {"metrics.jsonl", "best.safetensors"})
    EXPECT_TRUE(fs::exists(in("out.safetensors.training") / name)) << name;
  const Outcome classified = run_well({"classify -m", in("out.safetensors"),
                                       in("pictures/even/0.ppm"), "--format jsonl --device cpu"});
  EXPECT_EQ(classified.records().at(0)["attention"], "hedgehog:0-9,hydra:10-11");
}

// What depends on the model stays open: as a configuration it would count as the user's choice.
TEST_F(DistillCli, DumpedConfigurationsHoldWhatIsDecided) {
  const Json dumped = run({"convert --attn hedgehog --epochs 2 -b 4 --dump-config"}).json();
  EXPECT_EQ(dumped.at("epochs"), 2);
  EXPECT_EQ(dumped.at("batch-size"), 4);
  EXPECT_EQ(dumped.at("steps-maps"), 1600);
  for (const char* name : {"lr", "mechanism-lr-scale", "steps-outputs"})
    EXPECT_FALSE(dumped.contains(name)) << name;
}

TEST_F(DistillCli, TextReportHalfPrecisionAndOptionsOfTheUser) {
  const Outcome outcome =
      run_well(command("half.safetensors", {"--attn hydra:last1 --attn-opt hydra.feature_scale=off "
                                            "--precision float16 --stage maps --balance-sources"}));
  EXPECT_THAT(outcome.out, HasSubstr("agreement before"));
  EXPECT_THAT(outcome.out, HasSubstr("images/s\noutputs"));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("finetune")));
  EXPECT_THAT(outcome.err, HasSubstr("hydra start"));
  const auto file = checkpoint::SafetensorsFile::open(in("half.safetensors"));
  EXPECT_EQ(file.find("blocks.0.attn.qkv.weight")->dtype, checkpoint::Dtype::F16);
  EXPECT_EQ(file.find("blocks.11.attn.feature_scale"), nullptr);
  // The recipe without learned maps, which the user may change in part.
  const Json recipe = Json::parse(file.metadata().at("recipe"));
  EXPECT_EQ(recipe["lr"], 1e-3);
  EXPECT_EQ(recipe["scale"], Json({0.3, 1.0}));
  EXPECT_EQ(recipe["batch-size"], 4);
  // Its weights are where another run starts.
  const Outcome tuned = run_well(
      command("tuned.safetensors",
              {"--attn hydra:last1 --attn-opt hydra.feature_scale=off --stage finetune --start",
               in("half.safetensors")}));
  EXPECT_THAT(tuned.out, HasSubstr("finetune"));
  EXPECT_THAT(tuned.err, ::testing::Not(HasSubstr("hydra start")));
}

TEST_F(DistillCli, GoesOnFromAModelWithFewerConvertedLayers) {
  run_well(command("one.safetensors", {"--attn hydra:last1"}));
  const Outcome outcome = run_well(command(
      "two.safetensors", {"--attn hydra:last2 --stage maps --start", in("one.safetensors")}));
  EXPECT_THAT(outcome.err, HasSubstr("hydra start"));
  const auto teacher = checkpoint::SafetensorsFile::open(in("teacher.safetensors"));
  const auto one = checkpoint::SafetensorsFile::open(in("one.safetensors"));
  const auto two = checkpoint::SafetensorsFile::open(in("two.safetensors"));
  const auto same = [](const checkpoint::SafetensorsFile& a, const checkpoint::SafetensorsFile& b,
                       const std::string& name) {
    const auto* x = a.find(name);
    const auto* y = b.find(name);
    EXPECT_TRUE(x != nullptr && y != nullptr) << name;
    return std::ranges::equal(x->data, y->data);
  };
  for (const char* name : {"attn.qkv.weight", "attn.feature_scale", "mlp.fc1.weight"}) {
    const std::string taken = std::string("blocks.11.") + name;
    EXPECT_TRUE(same(two, one, taken)) << taken;
  }
  EXPECT_FALSE(same(one, teacher, "blocks.11.attn.qkv.weight"));
  EXPECT_FALSE(same(two, teacher, "blocks.10.attn.qkv.weight"));
  EXPECT_TRUE(same(two, teacher, "blocks.10.mlp.fc1.weight"));
  EXPECT_TRUE(same(two, teacher, "blocks.9.attn.qkv.weight"));
  EXPECT_EQ(Json::parse(two.metadata().at("recipe"))["start"],
            "one.safetensors, sha256 " + checkpoint::sha256_of_file(in("one.safetensors")));
}

TEST_F(DistillCli, PutsLayersOfSeveralModelsTogether) {
  run_well(command("hydra.safetensors", {"--attn hydra:last1"}));
  run_well(command("hedgehog.safetensors", {"--attn hedgehog:last2"}));
  const Outcome outcome = run_well(command(
      "mixed.safetensors", {"--attn hedgehog:10,hydra:11 --epochs 0 --start",
                            in("hedgehog.safetensors"), "--start", in("hydra.safetensors")}));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("hydra start")));  // nothing is left to train
  const auto hedgehog = checkpoint::SafetensorsFile::open(in("hedgehog.safetensors"));
  const auto hydra = checkpoint::SafetensorsFile::open(in("hydra.safetensors"));
  const auto mixed = checkpoint::SafetensorsFile::open(in("mixed.safetensors"));
  const auto expect_taken = [&](const checkpoint::SafetensorsFile& from, const std::string& name) {
    ASSERT_NE(from.find(name), nullptr) << name;
    ASSERT_NE(mixed.find(name), nullptr) << name;
    EXPECT_TRUE(std::ranges::equal(mixed.find(name)->data, from.find(name)->data)) << name;
  };
  expect_taken(hedgehog, "blocks.10.attn.qkv.weight");
  expect_taken(hedgehog, "blocks.10.mlp.fc1.weight");
  expect_taken(hydra, "blocks.11.attn.feature_scale");
  expect_taken(hydra, "blocks.11.mlp.fc1.weight");
  expect_taken(hydra, "norm.weight");
  const std::string starts = Json::parse(mixed.metadata().at("recipe"))["start"];
  EXPECT_THAT(starts, HasSubstr("hedgehog.safetensors, sha256 "));
  EXPECT_THAT(starts, HasSubstr("; hydra.safetensors, sha256 "));
}

TEST_F(DistillCli, StartsThatWouldSpoilTheModelAreRefused) {
  expect_error(
      2, {"holds no layer"},
      command("out.safetensors", {"--attn hydra:last1 --start", in("teacher.safetensors")}));
  run_well(
      {"models create --arch deit_tiny_patch8_16 --num-classes 2 --attn hydra:last1 "
       "--attn-opt hydra.feature_scale=on --seed 2 -o",
       in("stranger.safetensors")});
  expect_error(
      2, {"from another model"},
      command("out.safetensors", {"--attn hydra:last1 --start", in("stranger.safetensors")}));
}

TEST_F(DistillCli, ReplacesNoFileOfSomebodyElse) {
  fs::copy_file(in("teacher.safetensors"), in("mine.safetensors"));
  expect_error(2, {"the file exists"},
               command("mine.safetensors", {"--attn hydra:last1 --resume auto"}));
  EXPECT_TRUE(read_bytes(in("mine.safetensors")) == read_bytes(in("teacher.safetensors")));
  expect_error(2, {"an input of this run"},
               command("teacher.safetensors", {"--attn hydra:last1 --force"}));
}

TEST_F(DistillCli, MeasuresWhatCanBeReadAndSaysTheRest) {
  const std::string labels = folder_.write("labels.txt", "even\nodd\n").string();
  folder_.write("judged/even/broken.ppm", "P6 no picture");
  const Words quick{"--attn hydra:last1 --stage maps --labels", labels, "--eval", in("judged"),
                    "--format json --force"};
  const Outcome none = run(command("out.safetensors", quick));
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.err, HasSubstr("none of the labelled pictures"));
  EXPECT_EQ(none.json()["complete"], true);  // the report is there
  EXPECT_FALSE(none.json().contains("eval_top1"));
  folder_.write("judged/odd/1.ppm", ppm(20, 20, 1));
  const Outcome some = run(command("out.safetensors", quick));
  EXPECT_EQ(some.code, 3) << some.err;
  EXPECT_THAT(some.err, HasSubstr("broken.ppm"));
  EXPECT_EQ(some.json()["eval_images"], 1);
  EXPECT_EQ(some.json()["unreadable_pictures"], 1);
}

TEST_F(DistillCli, PicturesThatCannotBeReadAreNoDivergence) {
  for (unsigned i = 0; i < 24; ++i)
    folder_.write("broken/" + std::to_string(i) + ".ppm", "P6 no picture");
  const Outcome outcome = run({"convert --from", in("teacher.safetensors"), "--attn hydra:last1 -i",
                               in("broken"), "-o", in("out.safetensors"), "--device cpu"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(outcome.err.find("smaller --lr"), std::string::npos) << outcome.err;
}

TEST_F(DistillCli, ADivergingRunLeavesTheBestStateBeforeThat) {
  expect_error(
      1, {"not finite"},
      command("out.safetensors",
              {"--attn hydra:last2 --steps-outputs 20 --lr-outputs 1e30 --clip-grad 0 --report",
               in("report.json")}));
  EXPECT_EQ(Json::parse(read_bytes(in("report.json")))["complete"], false);
  const Outcome classified = run_well(
      {"classify", in("pictures/odd/1.ppm"), "-m", in("out.safetensors"), "--format jsonl"});
  EXPECT_GT(classified.records().at(0)["top"][0]["prob"].get<double>(), 0.4);
}

TEST_F(DistillCli, SaysWhichPicturesCannotBeRead) {
  folder_.write("pictures/odd/broken.ppm", "P6 no picture");
  const Outcome outcome = run(command("out.safetensors", {"--attn hydra:last1 --format json"}));
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  const std::size_t first = outcome.err.find("broken.ppm");
  ASSERT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("broken.ppm", first + 1), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.json()["unreadable_pictures"], 1);
  expect_error(1, {"broken.ppm"},
               command("strict.safetensors", {"--attn hydra:last1 --strict --epochs 20"}));
}

TEST_F(DistillCli, TheOverviewIsAPartOfTheModel) {
  run_well(command("out.safetensors",
                   {"--attn window --pos-interp tile --overview on --sizes 32 --steps-sizes 2"}));
  const auto classify = [&](const char* model, const std::string& size, const Words& more) {
    Words words = Words{"classify",
                        in("pictures/odd/1.ppm"),
                        "-m",
                        in(model),
                        "--img-size",
                        size,
                        "--format jsonl --precision float32"} +
                  more;
    const Outcome classified = run_well(words);
    return classified.code == 0 ? classified.records().at(0) : Json();
  };
  // 16 patches and those of the picture reduced to 16x16.
  const Json with = classify("out.safetensors", "32", {});
  const Json without = classify("out.safetensors", "32", {"--overview off"});
  EXPECT_EQ(with["tokens"], 1 + 16 + 4);
  EXPECT_EQ(without["tokens"], 1 + 16);
  EXPECT_NE(with["top"], without["top"]);
  EXPECT_EQ(classify("out.safetensors", "16", {})["tokens"], 1 + 4);
  EXPECT_EQ(classify("teacher.safetensors", "32", {})["tokens"], 1 + 16);
  EXPECT_EQ(classify("teacher.safetensors", "32", {"--overview on"})["tokens"], 1 + 16 + 4);
}

TEST_F(DistillCli, ALayerMayGetATableOfPositions) {
  run_well(command("out.safetensors", {"--attn hydra:last2 --pos-embed layers"}));
  const auto file = checkpoint::SafetensorsFile::open(in("out.safetensors"));
  EXPECT_NE(file.find("blocks.11.pos_embed"), nullptr);
  run_well({"classify -m", in("out.safetensors"), in("pictures/even/0.ppm")});
  expect_error(2, {"more than attention"},
               command("other.safetensors", {"--attn hydra:last2 --pos-embed sincos"}));
}

TEST_F(DistillCli, TheTeacherMayLookAtAnotherSize) {
  const auto divergence_at_16 = [&](const Words& more) {
    Words words = Words{"--sizes 16 --steps-sizes 2 --force --format json"} + more;
    const Outcome outcome = run_well(command("out.safetensors", words));
    return outcome.code == 0 ? outcome.json()["divergence_before"].get<double>() : -1;
  };
  // But for the rounding of plan and modules, which processors with AMX do by other instructions.
  EXPECT_LT(divergence_at_16({}), 3e-6) << "the student is its teacher";
  const double at_24 = divergence_at_16({"--img-size 24"});
  EXPECT_GT(at_24, 1e-5);
  const Outcome classified =
      run_well({"classify -m", in("out.safetensors"), in("pictures/odd/1.ppm"),
                "--format jsonl --precision float32"});
  EXPECT_EQ(classified.records().at(0)["tokens"], 1 + 4) << "the result keeps its own size";
  // At 16 pixels there is no overview; at 24 the teacher, which was trained without, has none.
  EXPECT_EQ(divergence_at_16({"--img-size 24 --overview on"}), at_24);
}

TEST_F(DistillCli, RefusesWithAReason) {
  const auto expect = [&](const Words& words, int code, const std::vector<std::string>& texts) {
    expect_error(code, texts, words);
  };
  const std::string teacher = in("teacher.safetensors").string();
  expect({"convert --from", teacher, "--attn hydra -i", in("pictures")}, 2,
         {"expected the file to write"});
  expect({"convert --from", teacher, "--attn hydra -o", in("o.safetensors")}, 2,
         {"expected pictures to learn from"});
  expect({"convert --from nothing --attn hydra -o", in("o.safetensors")}, 2,
         {"no such file, and no bundled model", "nothing"});
  expect(command("o.safetensors"), 2, {"expected the attention to convert to", "--attn"});
  expect(command("o.safetensors", {"--attn softmax"}), 2, {"already has that attention"});
  expect(command("o.safetensors", {"--attn hydra --scenes", in("pictures")}), 2,
         {"--scenes", "--sizes"});
  expect(command("o.safetensors", {"--attn hydra --sizes 32,0x5"}), 2, {"--sizes", "0x5"});
  expect(command("o.safetensors", {"--attn hydra --steps-sizes 2"}), 2,
         {"--steps-sizes", "no sizes"});
  expect(command("o.safetensors", {"--attn hydra --sizes 32 --stage maps"}), 2,
         {"--stage maps", "end to end"});
  expect(command("o.safetensors", {"--attn hydra --sizes nix"}), 2, {"--sizes", "'nix'"});
  expect(command("o.safetensors", {"--sizes 20"}), 2, {"--sizes 20x20", "of the patch"});
  expect(command("o.safetensors", {"--sizes 32 --scenes", in("missing")}), 2, {"missing"});
  expect(command("o.safetensors", {"--sizes 8,16x32 --scenes", in("pictures")}), 2,
         {"--scenes", "above 16x16 (HxW)"});
  expect(command("o.pth", {"--attn hydra"}), 2, {"safetensors"});
  expect(command("o.safetensors", {"--attn hydra --report a.txt"}), 2, {".html"});
  expect(command("o.safetensors", {"--attn hydra --reset-head"}), 2, {"nothing to teach"});
  expect(command("o.safetensors", {"--attn hydra --img-size 20"}), 2, {"patch"});
  expect(command("o.safetensors", {"--attn hydra --require-top1 3"}), 2, {"--eval"});
  expect(command("o.safetensors", {"--attn hydra -i", in("missing")}), 2, {"missing"});
  expect(command("o.safetensors", {"--attn hedgehog --steps-maps 0 --steps-outputs 0 --epochs 0"}),
         2, {"nothing would be learned", "--steps-maps"});
  EXPECT_FALSE(fs::exists(in("o.safetensors.training")));
  EXPECT_FALSE(fs::exists(in("o.safetensors")));

  const Words quick{"--attn hydra:last1 --steps-outputs 1 --stage maps --eval", in("pictures"),
                    "--labels", folder_.write("labels.txt", "even\nodd\n")};
  Words strict = quick + Words{"--require-top1 100.5"};
  expect(command("o.safetensors", strict), 4, {"check failed"});
  expect(command("o.safetensors", quick), 2, {"the file exists", "--force"});
  fs::remove(in("o.safetensors"));
  expect(command("o.safetensors", quick), 2, {"holds a run", "--resume auto"});
  Words forced = quick;
  forced.emplace_back("--force");
  expect(command("o.safetensors", forced), 0, {"wrote"});
  Words other = quick + Words{"--resume auto --lr-outputs 7"};
  expect(command("o.safetensors", other), 2, {"other settings"});
  other = quick;
  other += Words{"--resume auto --attn-opt hydra.feature_scale=off"};
  expect(command("o.safetensors", other), 2, {"other settings"});
}

TEST_F(DistillCli, ATeacherThatSaysNothingIsRefused) {
  folder_.write("broken.safetensors", with_a_nan(read_bytes(in("teacher.safetensors"))));
  expect_error(1, {"not finite"},
               command("o.safetensors", {"--attn hydra:last1 -m", in("broken.safetensors")}));
  EXPECT_FALSE(fs::exists(in("o.safetensors")));
}

TEST_F(DistillCli, SaysWhenTheModelLooksAtAnotherSize) {
  const Outcome outcome = run_well(
      command("o.safetensors", {"--attn hydra:last1 --img-size 24 --exif apply --steps-outputs "
                                "1 --stage maps --format json"}));
  EXPECT_THAT(outcome.err, HasSubstr("looks at pictures of 24x24, it was made for 16x16"));
}

}  // namespace
}  // namespace hydrascope::testing
