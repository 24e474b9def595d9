// Processes that decode end with the run; tests/contract/hostile.case has the rest.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <algorithm>

namespace hydrascope::testing {
namespace hostile_files_cli_test {

namespace fs = std::filesystem;

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

}  // namespace hostile_files_cli_test
}  // namespace hydrascope::testing
