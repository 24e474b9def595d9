// The parts of `benchmark` that measure nothing: statistics, rows, baseline, sweep, chart.
#include "app/benchmark/row.h"
#include "app/benchmark/sweep.h"
#include "app/command.h"
#include "model/registry/mechanisms.h"
#include "tests/app/formats.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BenchmarkRow row(std::string attention, double ms, double stddev = 0, std::int64_t tokens = 197) {
  BenchmarkRow r;
  r.model = "deit \"tiny\"";
  r.attention = std::move(attention);
  r.img_size = {224, tokens == 197 ? 224 : 448};
  r.tokens = tokens;
  r.precision = "float32";
  r.device = "cpu";
  r.kernels = "auto";
  r.stage = "model";
  r.ms_p50 = r.ms_mean = ms;
  r.ms_stddev = stddev;
  r.iterations = 25;
  r.images_per_second = 1000 / ms;
  r.peak_memory_bytes = 200'000'000;
  r.gflops_per_image = 2.5;
  return r;
}

TEST(TimingSummaryTest, PercentilesInterpolate) {
  const std::vector<double> samples{5, 1, 3, 2, 4};
  const TimingSummary summary = summarise(samples);
  EXPECT_DOUBLE_EQ(summary.p50, 3);
  EXPECT_DOUBLE_EQ(summary.p90, 4.6);
  EXPECT_DOUBLE_EQ(summary.p99, 4.96);
  EXPECT_DOUBLE_EQ(summary.mean, 3);
  EXPECT_DOUBLE_EQ(summary.stddev, std::sqrt(2.5));
  const std::vector<double> single{7};
  EXPECT_DOUBLE_EQ(summarise(single).p99, 7);
  EXPECT_DOUBLE_EQ(summarise(single).stddev, 0);
  EXPECT_ERROR(summarise({}), internal);
}

TEST(TimingSummaryTest, SettledWhenTheMedianStops) {
  EXPECT_FALSE(settled(std::vector<double>{10, 10, 10, 10, 10}));
  EXPECT_TRUE(settled(std::vector<double>{50, 10, 10, 10, 10.1, 10, 9.9}));
  EXPECT_FALSE(settled(std::vector<double>{20, 18, 16, 14, 12, 10}));
}

TEST(BenchmarkWriterTest, JsonAndJsonlAreReadBack) {
  const testing::TemporaryFolder folder;
  for (const auto& [format, name] :
       {std::pair{Format::json, "a.json"}, {Format::jsonl, "a.jsonl"}}) {
    const std::string file = (folder.path() / name).string();
    {
      std::ofstream stream(file);
      BenchmarkWriter writer(format, stream, {{"cpu", "X"}});
      writer.write(row("hydra", 12.5));
      writer.write(row("softmax", 25));
      writer.finish();
    }
    const std::vector<BenchmarkRow> rows = read_rows(file);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].key(), row("hydra", 1).key());
    EXPECT_DOUBLE_EQ(rows[1].ms_p50, 25);
    EXPECT_EQ(choose_format("", file), format);
  }
}

OrderedJson ceiling(double float32, bool disturbed = false) {
  kernels::device::CpuCeiling ceiling;
  ceiling.threads = 2;
  ceiling.float32 = {float32, disturbed};
  ceiling.bfloat16 = {2 * float32, false};
  ceiling.int8 = {4 * float32, false};
  ceiling.l2_read = {101.2e9, false};
  ceiling.memory_read = {20.04e9, disturbed};
  return to_json(ceiling);
}

TEST(BenchmarkWriterTest, TheCeilingIsNumbersForProgramsAndALineForPeople) {
  EXPECT_EQ(ceiling(158e9, true).dump(),
            R"({"threads":2,"float32_gflop_per_s":158.0,"bfloat16_gflop_per_s":316.0,)"
            R"("int8_gop_per_s":632.0,"l2_gb_per_s":101.2,"memory_gb_per_s":20.04,)"
            R"("disturbed":["float32","memory"]})");
  constexpr const char* kLine =
      "ceiling: float32 158 GFLOP/s, bfloat16 316 GFLOP/s, int8 632 Gop/s, L2 101 GB/s, memory "
      "20.0 GB/s";
  for (const bool disturbed : {false, true}) {
    std::ostringstream text;
    BenchmarkWriter(Format::text, text, {{"ceiling", ceiling(158e9, disturbed)}})
        .write(row("a", 1));
    EXPECT_THAT(text.str(), HasSubstr(std::string(kLine) +
                                      (disturbed ? "; disturbed: float32, memory\n" : "\n")));
  }
}

TEST(BenchmarkWriterTest, TablesHaveTheContractsColumns) {
  std::ostringstream csv;
  BenchmarkWriter(Format::csv, csv, {}).write(row("hydra", 10));
  EXPECT_THAT(
      csv.str(),
      HasSubstr(
          "model,attention,img_size,tokens,batch,precision,device,kernels,"
          "images_per_second,ms_p50,ms_p90,ms_p99,ms_mean,ms_stddev,iterations,"
          "warmup,peak_memory_bytes,gflops_per_image,achieved_tflops,pct_of_peak,"
          "peak_tflops_measured,stage,attention_options,approximations,error,top1,pct_of_memory\n"
          "\"deit "
          "\"\"tiny\"\"\",hydra,224x224,197,"));
}

TEST(BenchmarkWriterTest, TextRowsComeAsTheyAreMeasuredInAHundredColumns) {
  std::ostringstream text;
  BenchmarkWriter writer(Format::text, text, {{"cpu", "X"}});
  BenchmarkRow first = row("softmax", 12.5);
  first.kernels = "fused";
  writer.write(first);
  EXPECT_EQ(text.str(),
            "cpu: X\n\ndeit \"tiny\" on cpu\n"
            "attention                      HxW batch precision images/s  ms p50  ms p90 peak MB  "
            "GFLOP  % peak\n"
            "softmax                    224x224     1   float32    80.00   12.50   0.000     200  "
            "2.500   0.000\n");
  text.str("");
  first.top1 = 84.62;
  std::ostringstream of_a_card;
  BenchmarkWriter(Format::text, of_a_card, {}).write(first);
  EXPECT_THAT(of_a_card.str(), HasSubstr("deit \"tiny\" on cpu, top-1 84.6 % (card)\n"));
  BenchmarkRow unusual = row("softmax:0-9,hydra:10-11", 123456.7);
  unusual.approximations = "calibration=bundled";
  unusual.kernels = "fused+modules";
  unusual.stage = "end_to_end";
  unusual.img_size = {1088, 1920};
  unusual.peak_memory_bytes = 123'456'000'000;
  writer.write(unusual);
  EXPECT_THAT(text.str(), ::testing::StartsWith("softmax:0-9,hydra:10-11 calibration=bundled "
                                                "fused+modules end_to_end\n            "));
  unusual.device = "cuda:0";
  unusual.error = "out_of_memory";
  writer.write(unusual);
  writer.finish();
  EXPECT_THAT(text.str(), HasSubstr("\n\ndeit \"tiny\" on cuda:0\nattention "));
  EXPECT_THAT(text.str(), HasSubstr("float32  out_of_memory\n"));
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(BenchmarkWriterTest, ARowThatDidNotFitSaysSo) {
  BenchmarkRow failed = row("softmax", 0);
  failed.error = "out_of_memory";
  std::ostringstream text;
  BenchmarkWriter writer(Format::text, text, {});
  writer.write(failed);
  writer.finish();
  EXPECT_THAT(text.str(), HasSubstr("out_of_memory"));
  EXPECT_EQ(slower_rows({row("softmax", 10)}, {failed}, 5).size(), 1U) << "it is no success";
}

TEST(BenchmarkReaderTest, RefusesWhatIsNoResult) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "x.json").string();
  EXPECT_ERROR(read_rows(file), not_found);
  for (const char* text : {"", "[]", "{\"rows\":[{\"model\":1}]}", "no json", "{\"header\":{}}"}) {
    std::ofstream(file) << text;
    EXPECT_ERROR(read_rows(file), failed);
  }
  std::ofstream(file) << R"({"rows":[{"model":1}]})";
  EXPECT_ERROR(read_rows(file), failed, "a row's model: type must be string, but is number | ");
}

TEST(BaselineTest, FindsTheSlower) {
  const std::vector<BenchmarkRow> before{row("softmax", 20, 1), row("hydra", 10)};
  EXPECT_TRUE(slower_rows(before, {row("hydra", 12)}, 20).empty());
  EXPECT_EQ(slower_rows(before, {row("hydra", 12)}, 10).size(), 1U);
  EXPECT_EQ(slower_rows(before, {row("hydra", 12), row("elu", 9)}, 20).size(), 1U)
      << "elu is not in the baseline";
}

const model::MechanismRegistration kFirst({.name = "test_first",
                                           .options = {model::NumberOption("t", "1", 0, 9, "")}});
const model::MechanismRegistration kSecond({.name = "test_second"});

std::size_t runs_of(const std::vector<std::string>& words) {
  return sweep(parse(benchmark_spec(), words)).size();
}

TEST(SweepTest, AttentionListsAndSpecsWithCommas) {
  EXPECT_THAT(split_attention_list("softmax,hydra"), ElementsAre("softmax", "hydra"));
  EXPECT_THAT(split_attention_list("softmax:0-9,hydra:10-11"),
              ElementsAre("softmax:0-9,hydra:10-11"));
  EXPECT_THAT(split_attention_list("softmax;softmax,hydra:last4"),
              ElementsAre("softmax", "softmax,hydra:last4"));
}

TEST(SweepTest, IsTheCrossProduct) {
  EXPECT_EQ(runs_of({}), 1U);
  EXPECT_EQ(runs_of({"--attn", "test_first,test_second", "--img-size", "224,32x64", "-b", "1,8"}),
            8U);
  EXPECT_EQ(runs_of({"--attn", "test_first", "--attn", "test_second", "--precision",
                     "float32,bfloat16", "--device", "cpu"}),
            4U);
  EXPECT_EQ(runs_of({"--attn", "test_first,test_second", "--set", "attn-opt=test_first.t=2"}), 2U);
  EXPECT_EQ(runs_of({"--attn", "test_first,test_second", "--set", "attn-opt=test_first:0-3.t=2"}),
            2U);
  EXPECT_ERROR(runs_of({"--attn", "test_second", "--set", "attn-opt=test_first.t=2"}),
               invalid_argument, "test_first.t=2");
}

TEST(SweepTest, GivesEachRunWhatIsItsOwn) {
  const std::vector<BenchmarkRun> runs = sweep(
      parse(benchmark_spec(),
            std::vector<std::string>{"-m", "a,b", "--attn", "test_first,test_second", "--set",
                                     "attn-opt=test_first.t=2", "--img-size", "224,32x64",
                                     "--precision", "float32,int8", "--set", "calibration=none"}));
  ASSERT_EQ(runs.size(), 16U);
  EXPECT_EQ(runs[0].model.word, "a");
  EXPECT_EQ(runs[8].model.word, "b");
  EXPECT_THAT(runs[0].model.attention_options, ElementsAre("test_first.t=2"));
  EXPECT_TRUE(runs[4].model.attention_options.empty());
  EXPECT_EQ(runs[2].transform.img_size->value, (image::Size{32, 64}));
  EXPECT_EQ(runs[0].run.calibration, "");
  EXPECT_EQ(runs[1].run.calibration, "none");
}

TEST(ChartTest, DrawsOneLineAMechanism) {
  const BenchmarkResult result{{{"cpu", "<X>"}},
                               {row("hydra", 10), row("hydra", 20, 0, 393), row("softmax", 40)}};
  const testing::TemporaryFolder folder;
  const Report report = report_of(result);
  report.save((folder.path() / "a.svg").string(), "`html`");
  const std::string svg = testing::read_bytes(folder.path() / "a.svg");
  EXPECT_THAT(svg, HasSubstr(">hydra</text>"));
  EXPECT_THAT(svg, HasSubstr(">softmax</text>"));
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<path"); at != std::string::npos; at = svg.find("<path", at + 1))
    ++lines;
  EXPECT_EQ(lines, 4U) << "two mechanisms in two panels";
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  report.save((folder.path() / "a.html").string(), "`html`");
  const std::string html = testing::read_bytes(folder.path() / "a.html");
  EXPECT_THAT(html, HasSubstr("&lt;X&gt;"));
  EXPECT_THAT(html, HasSubstr("</svg>"));
  EXPECT_THAT(svg, HasSubstr(">images/s, logarithmic<"));
  EXPECT_ERROR(check_chart_file("a.png"), invalid_argument);
}

TEST(ChartTest, PagesOfSeveralModelsAreLegible) {
  std::vector<BenchmarkRow> rows{row("softmax", 40, 0, 1025), row("window", 1500, 0, 1221),
                                 row("softmax", 4), row("window", 5)};
  for (BenchmarkRow& one : rows) {
    one.model = "deit_tiny_patch16_224." + one.attention;
    one.top1 = 84.6;
    if (one.tokens > 1000) one.img_size = {512, 512};
  }
  const testing::TemporaryFolder folder;
  report_of({{}, rows}).save((folder.path() / "a.html").string(), "`html`");
  const std::string html = testing::read_bytes(folder.path() / "a.html");
  EXPECT_THAT(html, HasSubstr("hydrascope benchmark: 2 models<"));
  EXPECT_THAT(html, HasSubstr(">1.50 s<"));
  EXPECT_THAT(html, HasSubstr(">40.0 ms<"));
  EXPECT_THAT(html, HasSubstr(">window</text>")) << "the attention tells the models apart";
  std::size_t marks = 0;
  for (std::size_t at = html.find(">512x512</text>"); at != std::string::npos;
       at = html.find(">512x512</text>", at + 1))
    ++marks;
  EXPECT_EQ(marks, 2U) << "one in each chart, whatever the tokens";
}

TEST(ChartTest, OneSizeIsBars) {
  BenchmarkRow known = row("softmax", 40);
  known.top1 = 84.6;
  const BenchmarkResult result{{}, {known, row("hydra", 10)}};
  const testing::TemporaryFolder folder;
  report_of(result).save((folder.path() / "a.svg").string(), "`html`");
  const std::string svg = testing::read_bytes(folder.path() / "a.svg");
  EXPECT_THAT(svg, HasSubstr("images/s at 224x224"));
  EXPECT_THAT(svg, HasSubstr(">100.00, 4.0 x the least<"));
  EXPECT_THAT(svg, HasSubstr(">25.00, top-1 84.6 %<"));
  EXPECT_THAT(svg, HasSubstr("peak memory, MB at 224x224"));
  EXPECT_EQ(svg.find("<path"), std::string::npos);
}

}  // namespace
}  // namespace hydrascope::app
