// hydrascope COMMAND [OPTIONS] [INPUT...]: answers what the tables of options know and leaves the
// rest to hydrascope-engine, or hydrascope-trainer. Linked without LibTorch, whose libraries take longer to load than all
// that this does.
#include "app/command.h"
#include "app/command_line.h"
#include "app/pictures/decoding_workers.h"
#include "app/run/last_words.h"
#include "app/run/own_program.h"
#include "kernels/error.h"
#include "kernels/limits.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;

/// Beside this program where it was built, in libexec/ where it was installed.
fs::path engine_file(const std::string& name) {
  std::error_code error;
  const fs::path folder = own_file().parent_path();
  const fs::path installed = folder.parent_path() / "libexec/hydrascope" / name;
  for (const fs::path& file : {folder / name, installed})
    if (fs::exists(file, error)) return file;
  throw Error(ErrorCode::failed, "the program is not complete: " + name + " is missing",
              folder.string(),
              "scripts/build.sh builds it; " + installed.string() + " serves, too");
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

/// Under a limit of memory the loader may find no room for LibTorch's libraries, and its message
/// says little. An engine that does nothing shows it beforehand.
void require_memory_for(const std::string& file) {
  if (!limit_on(RLIMIT_AS)) return;
  std::vector<std::string> words{file, std::string(kDoNothing)};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addclose(&actions, stream);
  pid_t engine = -1;
  int status =
      ::posix_spawn(&engine, file.c_str(), &actions, nullptr, exec_words(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (status == 0)
    while (::waitpid(engine, &status, 0) < 0 && errno == EINTR) continue;
  if (status == 0) return;
  throw not_enough_memory("not enough memory to load LibTorch");
}

[[noreturn]] void run_engine(const std::string& program, const char* name,
                             std::vector<std::string> words) {
  const std::string file = engine_file(program).string();
  std::error_code error;
  static_cast<void>(fs::current_path(error));  // LibTorch loads parts of itself from there
  if (error)
    throw Error(ErrorCode::failed, "the working folder is not there any more: " + error.message(),
                "", "start the program in another one");
  wait_briefly_for_threads();
  require_memory_for(file);
  words.insert(words.begin(), name);
  ::execv(file.c_str(), exec_words(words).data());
  throw Error(ErrorCode::failed, std::string("cannot be started: ") + std::strerror(errno), file);
}

}  // namespace
}  // namespace hydrascope::app

/// Before the initialisers of all libraries, which take memory, too.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const g_before_all)() noexcept = hydrascope::app::install_last_words;

int main(int argc, char** argv) {
  namespace app = hydrascope::app;
  const std::vector<std::string> given(argv + 1, argv + argc);
  if (given.size() == 2 && given.front() == app::kDecodePictures)
    return app::decode_pictures_for(std::atoi(given[1].c_str()));
  return app::guarded(given, [&] {
    const std::vector<std::string> words = app::with_command(given);
    const auto answer = app::answer_or_parse(words);
    if (const int* code = std::get_if<int>(&answer)) return *code;
    app::run_engine(std::get<app::AskedCommand>(answer).command->program,
                    argc > 0 ? argv[0] : "hydrascope", words);
  });
}
