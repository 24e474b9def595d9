// Two runs at one file or folder: the second is refused.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <sys/file.h>

namespace hydrascope::testing {
namespace locks_cli_test {

namespace fs = std::filesystem;

TEST(LocksCliTest, TheSecondRunIsRefused) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("p/a.ppm", ppm(40, 30)).string();
  const fs::path file = folder.path() / "r.jsonl";
  Program first({"classify - -o", file}, {});
  first.type(picture + "\n");
  const fs::path part = folder.path() / "r.jsonl.part";
  Program::wait_until("a record", [&] { return fs::exists(part) && fs::file_size(part) > 0; });
  const Words second{"classify", picture, "-o", file};
  const fs::path link = folder.path() / "link.jsonl";
  fs::create_symlink("r.jsonl", link);
  expect_error(2, {"another run is writing this file"}, {"classify", picture, "-o", link});
  for (const Words& more : {Words{}, Words{"--resume"}}) {
    expect_error(2, {"another run is writing this file", file.string()}, second + more);
  }
  EXPECT_FALSE(fs::exists(file));
  // A kill leaves no lock.
  first.signal(SIGKILL);
  first.wait_with_open_input();
  run_well({"classify", picture, "--resume -o", link});
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file)));
}

TEST(LocksCliTest, FoldersOfTrainingAreOneRunsAlone) {
  const TemporaryFolder folder;
  for (unsigned i = 0; i < 4; ++i)
    folder.write(std::string("set/") + (i % 2 == 0 ? "a/" : "b/") + std::to_string(i) + ".ppm",
                 ppm(32, 24, 50 * i));
  const fs::path tiny = fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/corpus/states/0.1/tiny";
  const Words common{"--batch-size 2 --threads 1 --set workers=1 --device cpu"};
  const Words train = Words{"train",
                            folder.path() / "set",
                            "-m",
                            tiny,
                            "-o",
                            folder.path() / "run",
                            "--labels",
                            folder.write("classes.txt", "a\nb\n"),
                            "--held-out 2 --epochs 1000000"} +
                      common;
  const Words convert =
      Words{"convert --attn hedgehog -m",   tiny, "-i",
            folder.path() / "set",          "-o", folder.path() / "new.safetensors",
            "--held-out 2 --epochs 1000000"} +
      common;
  for (const auto& [words, begun] :
       {std::pair(train, folder.path() / "run"),
        std::pair(convert, folder.path() / "new.safetensors.training")}) {
    Program first(words, {});
    Program::wait_until("a lock", [&] {
      const int descriptor = ::open(begun.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor < 0) return false;
      const bool is_taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0;
      ::close(descriptor);
      return is_taken;
    });
    expect_error(2, {"another run is at work in this folder"}, words + Words{"--resume auto"});
    first.signal(SIGKILL);
    first.wait();
  }
}

}  // namespace locks_cli_test
}  // namespace hydrascope::testing
