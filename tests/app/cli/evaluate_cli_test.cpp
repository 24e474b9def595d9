// evaluate, compare and diagnose as a user runs them, on random models of 16 patches and three classes.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace hydrascope::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class EvaluateScoresCliTest : public ::testing::Test {
 protected:
  EvaluateScoresCliTest() {
    create(model_, "1", {});
    for (unsigned i = 0; i < 6; ++i) {
      const std::string name = std::to_string(i) + ".ppm";
      folder_.write("pictures/" + name, ppm(80, 70, 11 * i));
      csv_ += name + "," + std::to_string(i % 3) + "\n";
    }
    labels_ = folder_.write("labels.csv", csv_).string();
  }

  static void create(const std::filesystem::path& file, const std::string& seed,
                     const Words& more) {
    Words words =
        Words{"models create --arch deit_tiny_patch16_224 --num-classes 3 --img-size 64 --seed",
              seed, "-o", file} +
        more;
    run_well(words);
  }
  Outcome run_on_pictures(const std::string& command, const Words& more) const {
    return run(Words{command, folder_.path() / "pictures", "-m", model_, "--device cpu"} + more);
  }
  Outcome evaluate(const Words& more) const { return run_on_pictures("evaluate", more); }
  Outcome compare(const Words& more) const { return run_on_pictures("compare", more); }
  Outcome diagnose(const Words& more) const { return run_on_pictures("diagnose", more); }
  Outcome labelled(Words more, const std::string& command = "evaluate") const {
    return run_on_pictures(command, more + Words{"--labels-csv", labels_});
  }
  Json json(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  }
  void refused(const Outcome& outcome, const char* text) const {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_TRUE(outcome.out.empty());
  }

  TemporaryFolder folder_;
  std::filesystem::path model_ = folder_.path() / "model.safetensors";
  std::string csv_ = "file,label\n";
  std::string labels_;
};

TEST_F(EvaluateScoresCliTest, TablesAndCalibration) {
  const std::string classes = (folder_.path() / "classes.csv").string();
  const Json result = json(labelled({"--per-class - --confusions 2 --format json"}));
  EXPECT_EQ(result.at("images"), 6);
  std::int64_t right = 0;
  std::int64_t images = 0;
  for (const Json& row : result.at("per_class")) {
    right += row.at("right").get<std::int64_t>();
    images += row.at("images").get<std::int64_t>();
  }
  EXPECT_EQ(images, 6);
  EXPECT_NEAR(result.at("top1").get<double>(), 100.0 * double(right) / 6, 1e-3);
  EXPECT_LE(result.at("confusions").size(), 2U);
  std::int64_t in_bins = 0;
  ASSERT_EQ(result.at("reliability").size(), 15U);
  for (const Json& bin : result.at("reliability")) in_bins += bin.at("images").get<std::int64_t>();
  EXPECT_EQ(in_bins, 6);
  EXPECT_GT(result.at("nll").get<double>(), 0);
  for (const char* key : {"brier", "ece", "mce"}) {
    EXPECT_GE(result.at(key).get<double>(), 0) << key;
    EXPECT_LE(result.at(key).get<double>(), 2) << key;
  }
  const Outcome file = labelled({"--per-class", classes, "--format csv"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.lines().size(), 2U) << "the summary";
  EXPECT_THAT(read_bytes(classes), HasSubstr("class,id,label,images,right,top1,top5,taken_for"));
  const Outcome text = labelled({"--per-class -"});
  EXPECT_THAT(text.out, HasSubstr("top1"));
  EXPECT_THAT(text.out, HasSubstr("\nby class\nclass  "));
}

TEST_F(EvaluateScoresCliTest, OnePage) {
  const auto file = folder_.path() / "scores.html";
  const Json result = json(labelled({"--html", file, "--format json"}));
  const std::string page = read_bytes(file);
  for (const char* text :
       {"<dt>top1</dt>", "<dt>ece</dt>", "Calibration", "Classes of the lowest top-1",
        "Most frequent confusions", "Content-Security-Policy"})
    EXPECT_THAT(page, HasSubstr(text));
  EXPECT_EQ(page.find("Surest errors") == page.npos, result.at("top1") == 100.0);
  std::size_t pictures = 0;
  for (std::size_t at = page.find("<img "); at != page.npos; at = page.find("<img ", at + 1))
    ++pictures;
  EXPECT_EQ(pictures, 6U - std::lround(result.at("top1").get<double>() * 6 / 100));
  refused(labelled({"--html scores.txt"}), ".html");
  refused(evaluate({"--no-labels --against-attn softmax --html", file}), "no labels");
}

TEST_F(EvaluateScoresCliTest, SeveralValidLabels) {
  const std::string all = folder_.write("all.json", "[[0,1,2],[0,1,2],[],[0,1,2],[0,1,2],[]]");
  const Json result = json(labelled({"--real-labels", all, "--format json"}));
  EXPECT_EQ(result.at("top1_real"), 100.0);
  EXPECT_EQ(result.at("images_real"), 4);
  EXPECT_EQ(result.at("images"), 6);
  refused(labelled({"--real-labels", folder_.write("few.json", "[[0]]")}), "1 lists");
  refused(labelled({"--real-labels nonexistent.json"}), "nonexistent.json");
}

TEST_F(EvaluateScoresCliTest, AgainstItselfNothingDiffers) {
  const Json same = json(labelled({"--against", model_, "--format json"}, "compare"));
  EXPECT_EQ(same.at("agreement_images"), 6);
  EXPECT_EQ(same.at("agreement_top1"), 100.0);
  EXPECT_LT(same.at("agreement_kl").get<double>(), 1e-9);
  EXPECT_LT(same.at("largest_logit_difference").get<double>(), 1e-5);
  EXPECT_EQ(same.at("against_top1"), same.at("top1"));
  EXPECT_EQ(same.at("only_model_right"), 0);
  EXPECT_EQ(same.at("only_against_right"), 0);
  EXPECT_EQ(same.at("mcnemar_p"), 1.0);
  EXPECT_FALSE(same.contains("nll")) << "evaluate's";
}

TEST_F(EvaluateScoresCliTest, AgainstAnotherModelWithItsOwnSize) {
  const auto other = folder_.path() / "other.safetensors";
  create(other, "2", {"--img-size", "96"});
  const Json result = json(labelled({"--against", other, "--format json"}, "compare"));
  EXPECT_EQ(result.at("img_size"), Json({64, 64}));
  EXPECT_EQ(result.at("against_img_size"), Json({96, 96}));
  EXPECT_EQ(result.at("against"), other.string());
  EXPECT_GT(result.at("agreement_kl").get<double>(), 0);
  const std::int64_t sum = result.at("both_right").get<std::int64_t>() +
                           result.at("only_model_right").get<std::int64_t>() +
                           result.at("only_against_right").get<std::int64_t>() +
                           result.at("both_wrong").get<std::int64_t>();
  EXPECT_EQ(sum, 6);
  // The reference alone says the same of itself.
  const Outcome alone = run({"evaluate", folder_.path() / "pictures", "-m", other, "--labels-csv",
                             labels_, "--format json"});
  EXPECT_EQ(json(alone).at("top1"), result.at("against_top1"));
}

TEST_F(EvaluateScoresCliTest, TwoConfigurationsOfOneFileWithoutLabels) {
  const Json result = json(compare(
      {"--attn hydra:last2 --against-attn softmax --against-precision bfloat16 --format json"}));
  EXPECT_TRUE(result.at("top1").is_null());
  EXPECT_EQ(result.at("images"), 6);
  EXPECT_EQ(result.at("attention"), "softmax:0-9,hydra:10-11");
  EXPECT_EQ(result.at("against_attention"), "softmax");
  EXPECT_EQ(result.at("against_precision"), "bfloat16");
  EXPECT_EQ(result.at("precision"), "float32");
  EXPECT_GT(result.at("largest_logit_difference").get<double>(), 0);
  EXPECT_FALSE(result.contains("against_top1"));
  const std::string one = (folder_.path() / "pictures/1.ppm").string();
  EXPECT_EQ(
      json(run({"compare", one, one, "-m", model_, "--against-precision bfloat16 --format json"}))
          .at("images"),
      2);
  refused(evaluate({"--against-attn softmax --save-errors", folder_.path() / "x"}), "no labels");
  refused(evaluate({}), "--labels-csv");
  refused(compare({}), "--against MODEL");
  refused(compare({"--against-attn softmax --per-class -"}), "unknown option --per-class");
}

TEST_F(EvaluateScoresCliTest, EarlierSpellingsOfEvaluateNameTheirCommands) {
  const Outcome outcome =
      labelled({"--against-precision bfloat16 --diagnostics - --diagnostics-images 1 "
                "--faithfulness deletion --maps hydra --steps 1 --format json"});
  const Json result = json(outcome);
  EXPECT_THAT(outcome.err,
              HasSubstr("note: evaluate --against-precision is now hydrascope compare\n"
                        "note: evaluate --faithfulness is now hydrascope "
                        "faithfulness\n"
                        "note: evaluate --diagnostics is now hydrascope diagnose\n"));
  // All at once, as before.
  for (const char* key : {"nll", "reliability", "agreement_top1", "faithfulness", "diagnostics"})
    EXPECT_TRUE(result.contains(key)) << key;
  EXPECT_EQ(result.at("diagnostics").at("images"), 1);
  EXPECT_THAT(labelled({"--format json"}).err, Not(HasSubstr("is now")));
}

TEST_F(EvaluateScoresCliTest, WhatCannotBeComparedIsRefused) {
  const auto four = folder_.path() / "four.safetensors";
  create(four, "1", {"--num-classes", "4"});
  refused(compare({"--against", four}), "4 classes");
  refused(compare({"--against deit_tiny_patch16_224.sofmax"}), "deit_tiny_patch16_224.softmax");
  refused(compare({"--against", model_, "--against-attn hedghog"}), "hedgehog");
  refused(compare({"--against-attn nosuch"}), "(--against-attn)");
  refused(compare({"--against-precision bfloat16 --calibration none"}), "int8");
  const Outcome calibrated = compare({"--against-precision int8 --calibration none"});
  EXPECT_EQ(calibrated.code, 0) << calibrated.err;
}

TEST_F(EvaluateScoresCliTest, APictureThatFailsIsComparedNowhere) {
  folder_.write("pictures/2.ppm", "no picture");
  const Outcome outcome = labelled({"--against-attn hydra --format json"}, "compare");
  EXPECT_EQ(outcome.code, 3);
  const Json result = outcome.json();
  EXPECT_EQ(result.at("failed"), 1);
  EXPECT_EQ(result.at("images"), 5);
  EXPECT_EQ(result.at("agreement_images"), 5);
}

TEST_F(EvaluateScoresCliTest, SavesWhatIsMisclassified) {
  const auto errors = folder_.path() / "errors";
  folder_.write("errors/sheet-001.jpg", "of an earlier run");
  folder_.write("errors/sheet-002.jpg", "of an earlier run");
  const Json result = json(labelled({"--save-errors", errors, "--most-errors 2 --format json"}));
  const auto wrong =
      static_cast<std::size_t>(std::lround((1 - result.at("top1").get<double>() / 100) * 6));
  ASSERT_GE(wrong, 2U) << "a random model";
  const std::string table = read_bytes(errors / "errors.csv");
  EXPECT_EQ(std::ranges::count(table, '\n'), 3);
  EXPECT_NE(read_bytes(errors / "sheet-001.jpg"), "of an earlier run");
  EXPECT_FALSE(std::filesystem::exists(errors / "sheet-002.jpg"));
}

TEST_F(EvaluateScoresCliTest, DiagnosticsByLayerAndHead) {
  const Json diagnostics = json(diagnose(
      {"--attn hedgehog:0-9,hydra:last2 --against-attn softmax --limit-images 2 --format json"}));
  EXPECT_EQ(diagnostics.at("schema"), 1);
  EXPECT_EQ(diagnostics.at("images"), 2);
  EXPECT_EQ(diagnostics.at("queries"), 17);
  ASSERT_EQ(diagnostics.at("rows").size(), 12U * 4);
  const Json& first = diagnostics.at("rows").at(0);
  EXPECT_EQ(first.at("mechanism"), "hedgehog");
  EXPECT_TRUE(first.at("head").is_null());
  EXPECT_GT(first.at("entropy").get<double>(), 0);
  EXPECT_LE(first.at("entropy_share").get<double>(), 1.0001);
  EXPECT_GT(first.at("softmax_kl").get<double>(), 0);
  EXPECT_GT(first.at("reference_error").get<double>(), 0);
  EXPECT_TRUE(first.at("global_norm").is_null());
  const Json& last = diagnostics.at("rows").at(47);
  EXPECT_EQ(last.at("layer"), 11);
  EXPECT_EQ(last.at("head"), 2);
  EXPECT_EQ(last.at("mechanism"), "hydra");
  EXPECT_TRUE(last.at("entropy").is_null());
  EXPECT_GT(last.at("global_norm").get<double>(), 0);
  // The earlier spelling computes the same beside its accuracy.
  EXPECT_EQ(json(evaluate({"--attn hedgehog:0-9,hydra:last2 --against-attn softmax --diagnostics - "
                           "--diagnostics-images 2 --format json"}))
                .at("diagnostics")
                .at("rows"),
            diagnostics.at("rows"));
}

TEST_F(EvaluateScoresCliTest, DiagnosticsIntoFiles) {
  const std::string page = (folder_.path() / "page.html").string();
  const Outcome outcome = diagnose({"-o", page, "--limit-images 1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_THAT(read_bytes(page), HasSubstr("<svg"));
  const Outcome text = diagnose({"--limit-images 1"});
  EXPECT_THAT(text.out, HasSubstr("layer  head  mechanism"));
  EXPECT_THAT(text.out, HasSubstr("entropy / ln N"));
  EXPECT_EQ(diagnose({"--limit-images 1 --format csv"}).lines().size(), 1U + 12 * 4);
  refused(diagnose({"-o x.pdf"}), "x.pdf");
  refused(diagnose({"-o /nonexistent/x.html"}), "no such folder");
  refused(run({"diagnose"}), "name pictures");
  // Another shape: no comparison of layers.
  const auto small = folder_.path() / "small.safetensors";
  create(small, "1", {"--arch", "deit_small_patch16_224"});
  const Json other = json(diagnose({"--against", small, "--limit-images 1 --format json"}));
  EXPECT_THAT(other.at("notes").at(0).get<std::string>(), HasSubstr("another shape"));
}

TEST_F(EvaluateScoresCliTest, DiagnosticsLookIntoFoldersAndLeaveOutWhatIsNoPicture) {
  folder_.write("all/a/1.ppm", ppm(80, 70, 1));
  folder_.write("all/b/2.ppm", "no picture");
  const Words words{"diagnose", folder_.path() / "all", "-m", model_, "--format json"};
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.json().at("images"), 1);
  EXPECT_THAT(outcome.err, HasSubstr("not in the diagnostics"));
  std::filesystem::remove(folder_.path() / "all/a/1.ppm");
  EXPECT_EQ(run(words).code, 1);
}

}  // namespace
}  // namespace hydrascope::testing
