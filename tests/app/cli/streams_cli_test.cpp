// What becomes of results that nobody can take, of streams that are not there, and of odd names.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <algorithm>
#include <set>

namespace hydrascope::testing {
namespace streams_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Every command that prints, quick.
class StreamsCliTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<Words> commands() const {
    const std::string weights = asset("models/deit_tiny_patch16_224.softmax.safetensors").string();
    return {{"classify", picture_},
            {"evaluate", (folder_.path() / "set").string()},
            {"benchmark", "-m", "vit_tiny_patch32_224", "--warmup", "0", "--iters", "1",
             "--img-size", "64", "--precision", "float32"},
            {"doctor"},
            {"models", "list"},
            {"models", "path"},
            {"models", "info", weights},
            {"inspect", weights}};
  }
  static void expect_complaint(const Outcome& outcome, const std::string& hint) {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("error: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(hint), std::string::npos) << outcome.err;
  }

  TemporaryFolder folder_;
  std::string picture_ = folder_.write("set/n02444819/a.ppm", ppm(40, 30)).string();
};

TEST_F(StreamsCliTest, AFullDiskIsAnErrorOfEveryCommand) {
  for (Words words : commands()) {
    SCOPED_TRACE(words[0] + " " + words.back());
    RunOptions full;
    full.standard_output = "/dev/full";
    expect_complaint(run(words, full), "is there space left on the disk?");
    words += Words{"-o /dev/full"};
    expect_complaint(run(words), "is there space left on the disk?");
  }
}

TEST_F(StreamsCliTest, StreamsMayBeClosed) {
  RunOptions without_output;
  without_output.closed = {STDOUT_FILENO};
  expect_complaint(run({"classify", picture_}, without_output), "standard output is closed");
  expect_complaint(run({"models list"}, without_output), "standard output is closed");
  // A file that is opened does not become standard output.
  const std::string logits = (folder_.path() / "l.npy").string();
  const std::string records = (folder_.path() / "r.jsonl").string();
  RunOptions without_any;
  without_any.closed = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  run_well({"classify", picture_, "-v -o", records, "--save-logits", logits}, without_any);
  EXPECT_EQ(fs::file_size(logits), 128 + 1000 * sizeof(float));
  EXPECT_EQ(Json::parse(read_bytes(records)).at("top").size(), 5U);
}

TEST_F(StreamsCliTest, RecordsOfNamesThatAreNotUtf8CanBeTold) {
  for (const char* name : {"odd/\xFF.ppm", "odd/\xFE%.ppm", "odd/\xC3\xA9.ppm"})
    folder_.write(name, ppm(40, 30));
  RunOptions here;
  here.working_directory = folder_.path();
  const Outcome outcome = run_well({"classify odd --format jsonl"}, here);
  std::multiset<std::string> inputs;
  std::set<std::string> bytes;
  for (const Json& record : outcome.records()) {
    inputs.insert(record.at("input").get<std::string>());
    if (record.contains("input_bytes")) bytes.insert(record.at("input_bytes").get<std::string>());
  }
  EXPECT_EQ(inputs, (std::multiset<std::string>{"odd/\xC3\xA9.ppm", "odd/\xEF\xBF\xBD%.ppm",
                                                "odd/\xEF\xBF\xBD.ppm"}));
  EXPECT_EQ(bytes, (std::set<std::string>{"odd/%FE%25.ppm", "odd/%FF.ppm"}));
  EXPECT_EQ(run_well({"classify odd --format json"}, here).json().at(1).at("input_bytes"),
            "odd/%FE%25.ppm");
  for (const char* format : {"csv", "tsv", "text"}) {
    const std::string out = run_well({"classify odd --format", std::string(format)}, here).out;
    for (const char* name : {"odd/\xFF.ppm", "odd/\xFE%.ppm", "odd/\xC3\xA9.ppm"})
      EXPECT_NE(out.find(name), std::string::npos) << format;
  }
}

TEST_F(StreamsCliTest, AClosedTerminalStopsInOrder) {
  Program program({"classify --format jsonl -"}, {});
  program.type(picture_ + "\n");
  Program::wait_until("a record", [&] { return program.output_so_far().ends_with('\n'); });
  program.signal(SIGHUP);
  const Outcome outcome = program.wait_with_open_input();
  EXPECT_EQ(outcome.code, 129);
  EXPECT_EQ(outcome.records().size(), 1U);
}

}  // namespace streams_cli_test
}  // namespace hydrascope::testing
