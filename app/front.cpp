// hydrascope COMMAND [OPTIONS] [INPUT...]: answers what the tables of options know and leaves the
// rest to hydrascope-engine. Linked without LibTorch, whose libraries take longer to load than all
// that this does.
#include "app/command_line.h"
#include "app/pictures/decoding_workers.h"
#include "app/run/local_ranks.h"
#include "kernels/error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// Beside this program where it was built, in libexec/ where it was installed.
fs::path engine_file() {
  constexpr const char* kName = "hydrascope-engine";
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path installed = folder.parent_path() / "libexec/hydrascope" / kName;
  for (const fs::path& file : {folder / kName, installed})
    if (fs::exists(file, error)) return file;
  throw Error(ErrorCode::failed, "the program is not complete: hydrascope-engine is missing",
              folder.string(), "build or install it again; " + installed.string() + " serves, too");
}

/// The computing threads share their processors with others: workers that decode, another program.
/// GNU OpenMP's threads spin for milliseconds where one of them was not scheduled, and with more
/// work than processors that becomes most of the time (a step of training took two to three times
/// as long). Its patience is read when the library is loaded, so it is set before that.
void wait_briefly_for_threads() {
  // Some ten microseconds: more than a product's parts differ by, less than a time slice.
  constexpr const char* kSpins = "1000";
  if (std::getenv("OMP_WAIT_POLICY") == nullptr)
    ::setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0);
}

[[noreturn]] void run_engine(const char* name, std::vector<std::string> words) {
  const std::string file = engine_file().string();
  wait_briefly_for_threads();
  words.insert(words.begin(), name);
  ::execv(file.c_str(), exec_words(words).data());
  throw Error(ErrorCode::failed, std::string("cannot be started: ") + std::strerror(errno), file);
}

}  // namespace
}  // namespace hydrascope::app

int main(int argc, char** argv) {
  namespace app = hydrascope::app;
  const std::vector<std::string> given(argv + 1, argv + argc);
  if (given.size() == 2 && given.front() == app::kDecodePictures)
    return app::decode_pictures_for(std::atoi(given.back().c_str()));
  return app::guarded(given, [&] {
    const std::vector<std::string> words = app::with_command(given);
    if (const auto code = app::answer_from_tables(words)) return *code;
    app::run_engine(argc > 0 ? argv[0] : "hydrascope", words);
  });
}
