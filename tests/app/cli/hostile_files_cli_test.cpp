// Files that make a decoder crash or hang, weights that lose their end or are no numbers.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace hydrascope::testing {
namespace hostile_files_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HostileFilesCliTest : public ::testing::Test {
 protected:
  HostileFilesCliTest() {
    run_well(
        {"models create --arch deit_tiny_patch16_224 --num-classes 3 --img-size 64 -o", model_});
    hostile_.working_directory = folder_.path();
    hostile_.environment = {{"LD_PRELOAD", HYDRASCOPE_HOSTILE_FILES}};
  }
  void write_pictures(const std::vector<std::string>& names) const {
    for (const std::string& name : names)
      folder_.write("p/" + name, ppm(90, 70, static_cast<unsigned>(name.front())));
  }
  static std::vector<std::string> processes_named(const std::string& word, pid_t parent) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream words(entry.path() / "cmdline");
      const std::string line{std::istreambuf_iterator<char>(words), {}};
      std::ifstream facts(entry.path() / "stat");
      std::string text;
      std::getline(facts, text);
      const std::size_t end = text.rfind(')');
      if (line.find(word) == line.npos || end == text.npos) continue;
      if (parent == 0 || std::stol(text.substr(end + 4)) == parent)
        found.push_back(entry.path().filename());
    }
    return found;
  }

  TemporaryFolder folder_;
  std::string model_ = (folder_.path() / "model.safetensors").string();
  RunOptions hostile_;
};

TEST_F(HostileFilesCliTest, ADecoderThatCrashesOrHangsCostsOneRecord) {
  write_pictures({"a.ppm", "crash.ppm", "d.ppm", "hang.ppm", "hungry.ppm", "z.ppm"});
  folder_.write("p/e.ppm", "P6 no picture");
  folder_.write("p/w.png", "\x89PNG\r\n\x1a\n");
  const Words words{"classify p --format jsonl --precision float32 --save-logits l.npy -m", model_};
  const Words isolated{"--isolate-decoding --decode-timeout 1 --max-bytes 30000000"};
  const Outcome outcome = run(words + isolated + Words{"--max-pixels 1000000"}, hostile_);
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::map<std::string, std::string> errors;
  std::vector<std::string> inputs;
  for (const Json& record : outcome.records()) {
    inputs.push_back(record.at("input"));
    if (record.contains("error"))
      errors[inputs.back()] = record.at("error").at("code").get<std::string>() + ": " +
                              record.at("error").at("message").get<std::string>();
  }
  EXPECT_THAT(inputs, ElementsAre("p/a.ppm", "p/crash.ppm", "p/d.ppm", "p/e.ppm", "p/hang.ppm",
                                  "p/hungry.ppm", "p/w.png", "p/z.ppm"));
  EXPECT_EQ(errors["p/crash.ppm"], "decode_failed: the decoder crashed: Segmentation fault");
  EXPECT_EQ(errors["p/hang.ppm"], "decode_failed: decoding took longer than 1 seconds");
  EXPECT_EQ(errors["p/hungry.ppm"], "decode_failed: the decoder crashed: Aborted");
  const Npy logits((folder_.path() / "l.npy").string());
  // Without isolation the crash is the program's; without the shim all is as with isolation.
  EXPECT_EQ(run({"classify p/crash.ppm -m", model_}, hostile_).code, 128 + SIGSEGV);
  RunOptions plain = hostile_;
  plain.environment.clear();
  const std::vector<Json> records = run(words, plain).records();
  ASSERT_EQ(records.size(), 8U);
  for (const std::size_t i : {3U, 6U})
    EXPECT_EQ(records[i], outcome.records()[i]) << "what other errors say";
  const Npy undisturbed((folder_.path() / "l.npy").string());
  for (const std::size_t i : {0U, 2U, 7U})
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(logits.values.at(3 * i + c), undisturbed.values.at(3 * i + c));
}

TEST_F(HostileFilesCliTest, AlsoWherePicturesAreScoredAndDrawn) {
  write_pictures({"a.ppm", "crash.ppm", "z.ppm"});
  const Words more{"--isolate-decoding --device cpu -m", model_};
  folder_.write("labels.csv", "file,label\na.ppm,0\ncrash.ppm,1\nz.ppm,2\n");
  const Outcome scored =
      run(Words{"evaluate p --labels-csv labels.csv --format json"} + more, hostile_);
  EXPECT_EQ(scored.code, 3) << scored.err;
  EXPECT_EQ(scored.json().at("failed"), 1);
  const Outcome drawn = run(Words{"visualize p -o maps --format jsonl"} + more, hostile_);
  EXPECT_EQ(drawn.code, 3) << drawn.err;
  ASSERT_EQ(drawn.records().size(), 3U);
  EXPECT_THAT(drawn.records()[1].at("error").at("message").get<std::string>(),
              HasSubstr("the decoder crashed"));
  EXPECT_TRUE(fs::exists(folder_.path() / "maps/z.heatmap.png"));
  const Outcome tiles = run(Words{"classify p --views tiles --format jsonl"} + more, hostile_);
  EXPECT_EQ(tiles.code, 3) << tiles.err;
  EXPECT_EQ(tiles.records().size(), 3U);
}

TEST_F(HostileFilesCliTest, DecodersEndWithTheRun) {
  write_pictures({"a.ppm", "hang.ppm"});
  for (const int number : {SIGINT, SIGKILL}) {
    Program program(
        {"classify - --isolate-decoding --decode-timeout 2 --workers 1 --format jsonl -m", model_},
        hostile_);
    program.type("p/a.ppm\n");
    Program::wait_until("a record", [&] { return program.output_so_far().ends_with('\n'); });
    program.type("p/hang.ppm\n");
    const std::vector<std::string> workers = processes_named("decode-pictures", program.pid());
    EXPECT_FALSE(workers.empty());
    program.signal(number);
    EXPECT_EQ(program.wait_with_open_input().code, 128 + number);
    for (const std::string& worker : workers) {
      Program::wait_until("the end of a worker", [&] {
        const std::vector<std::string> left = processes_named("decode-pictures", 0);
        return std::ranges::find(left, worker) == left.end();
      });
    }
  }
}

TEST_F(HostileFilesCliTest, LargeFilesAreRefusedUnread) {
  write_pictures({"a.ppm"});
  folder_.write("p/sparse.png");
  fs::resize_file(folder_.path() / "p/sparse.png", std::uintmax_t{1} << 32);
  folder_.write("p/no_picture.jpg", std::string(std::size_t{1} << 17, 'x'));
  RunOptions here;
  here.working_directory = folder_.path();
  const std::vector<Json> records =
      run({"classify p --format jsonl --max-bytes 200000 -m", model_}, here).records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_FALSE(records[0].contains("error"));
  EXPECT_EQ(records[1].at("error").at("code"), "unsupported_format");
  EXPECT_EQ(records[2].at("error").at("code"), "too_large");
  EXPECT_EQ(records[2].at("error").at("message"), "the file has more than 200000 bytes");
  expect_error(2, {"works with --isolate-decoding only (--decode-timeout)"},
               {"classify p --decode-timeout 3"}, here);
  // A device has no size, and no end.
  const Outcome endless = run({"classify /dev/zero --format jsonl -m", model_});
  EXPECT_EQ(endless.code, 3) << endless.err;
  EXPECT_EQ(endless.records().at(0).at("error").at("code"), "unsupported_format");
}

TEST_F(HostileFilesCliTest, WeightsThatLoseTheirEndAreOneLine) {
  write_pictures({"a.ppm"});
  for (const char* command : {"classify p/a.ppm", "inspect --verify"}) {
    fs::copy_file(model_, folder_.path() / "shortened.safetensors",
                  fs::copy_options::overwrite_existing);
    RunOptions options = hostile_;
    options.environment["SHORTENED_TO"] = "65536";
    Words words;
    std::istringstream stream{std::string(command)};
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.front() == "classify") words.push_back("-m");
    words.push_back("shortened.safetensors");
    const Outcome outcome = run(words, options);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_EQ(outcome.err,
              "error: the file was shortened while it was read (shortened.safetensors)\n");
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(HostileFilesCliTest, NumbersThatAreNoneAreNamed) {
  write_pictures({"a.ppm", "b.ppm"});
  RunOptions here;
  here.working_directory = folder_.path();
  EXPECT_THAT(run_well({"inspect --verify", model_}).out, HasSubstr("all weights are finite\n"));
  folder_.write("bad.safetensors", with_a_nan(read_bytes(model_)));
  const Outcome text = run({"inspect bad.safetensors --verify"}, here);
  EXPECT_EQ(text.code, 4);
  EXPECT_THAT(text.out, HasSubstr("is not finite: 1 NaN, 0 infinite\n"));
  EXPECT_EQ(run({"inspect bad.safetensors"}, here).code, 0);
  const Outcome table = run({"inspect bad.safetensors --verify --format csv"}, here);
  EXPECT_EQ(table.code, 4);
  EXPECT_THAT(table.err, HasSubstr("is not finite: 1 NaN, 0 infinite\n"));
  const Outcome json = run({"inspect bad.safetensors --verify --format json"}, here);
  const Json found = json.json().at("not_finite");
  ASSERT_EQ(found.size(), 1U);
  const std::string name = found[0].at("name");
  EXPECT_EQ(found[0], (Json{{"name", name}, {"nan", 1}, {"infinite", 0}}));
  // It is the last one of the file, whichever that is: the head has three rows, all pictures see it.
  const Outcome records = run({"classify p --format jsonl -m bad.safetensors"}, here);
  EXPECT_EQ(records.code, 3) << records.err;
  for (const Json& record : records.records()) {
    EXPECT_EQ(record.at("error").at("code"), "failed");
    EXPECT_THAT(record.at("error").at("message").get<std::string>(),
                HasSubstr("logits are NaN or infinite"));
  }
  EXPECT_EQ(records.records().size(), 2U);
  const Outcome scored = run({"evaluate p -m bad.safetensors --no-labels --format json"}, here);
  EXPECT_NE(scored.code, 0);
}

TEST_F(HostileFilesCliTest, AnotherPrecisionIsCheckedOnTheFirstPictures) {
  write_pictures({"a.ppm", "b.ppm", "c.ppm", "d.ppm"});
  RunOptions here;
  here.working_directory = folder_.path();
  const Words words{"classify p --format jsonl --check-precision 3 -m", model_};
  const auto said = [&](const char* precision) {
    const Outcome outcome = run_well(words + Words{"--precision", std::string(precision)}, here);
    EXPECT_EQ(outcome.records().size(), 4U);
    return outcome.err;
  };
  EXPECT_THAT(said("bfloat16"), HasSubstr("precision: 3 pictures in float32, too: "));
  EXPECT_THAT(said("bfloat16"), HasSubstr("logits differ by at most 0."));
  EXPECT_EQ(said("float32"),
            "precision: 3 pictures in float32, too: 0 have another top-1, logits differ by at most "
            "0.0\n");
  folder_.write("labels.csv", "file,label\na.ppm,0\nb.ppm,1\nc.ppm,2\nd.ppm,0\n");
  const Json scores = run_well({"evaluate p --labels-csv labels.csv --format json --device cpu "
                                "--precision bfloat16 --check-precision 9 -q -m",
                                model_},
                               here)
                          .json();
  EXPECT_EQ(scores.at("precision_check_images"), 4);
  EXPECT_LE(scores.at("precision_check_flips"), 4);
  EXPECT_GT(scores.at("precision_check_largest_difference"), 0);
  EXPECT_LT(scores.at("precision_check_largest_difference"), 0.1);
}

}  // namespace hostile_files_cli_test
}  // namespace hydrascope::testing
