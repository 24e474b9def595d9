// hydrascope-engine and hydrascope-trainer: the programs with LibTorch, which run what the front (front.cpp) passes on.
#include "app/command.h"
#include "app/command_line.h"
#include "app/options/written_files.h"
#include "app/run/last_words.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "model/checkpoint/formats/mapped_file.h"
#include "model/inference/one_torch_thread.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <malloc.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

/// Activations of a batch are tens of megabytes: glibc would map and unmap them in every layer, and
/// the kernel would clear the pages each time. Kept in the heap they are reused.
void keep_large_blocks() {
  constexpr int kNeverMap = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNeverMap);
  mallopt(M_TRIM_THRESHOLD, kNeverMap);
}

/// Weights are mapped, not copied. Reading what another program has cut off raises SIGBUS in the
/// thread that reads, which holds none of the locks that are taken here, and none of memory's.
extern "C" void say_what_was_shortened(int, siginfo_t* info, void*) {
  const std::string_view file = checkpoint::mapped_file_at(info->si_addr);
  if (file.empty()) {  // it happens again, and ends the program
    std::signal(SIGBUS, SIG_DFL);
    return;
  }
  const std::string line =
      "error: the file was shortened while it was read (" + printable(file) + ")\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  _exit(kExitFailed);
}

void notice_shortened_files() {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_sigaction = say_what_was_shortened;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

/// LibTorch looks at the processor once, and without /proc it complains on standard error, whatever
/// comes of it.
void look_at_processor_quietly() {
  if (::access("/proc/cpuinfo", R_OK) == 0) return;
  const int kept = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (kept >= 0 && nothing >= 0) {
    ::dup2(nothing, STDERR_FILENO);
    at::get_cpu_capability();
    ::dup2(kept, STDERR_FILENO);
  }
  for (const int descriptor : {kept, nothing})
    if (descriptor >= 0) ::close(descriptor);
}

int run(std::vector<std::string> words) {
  if (words.size() == 1 && words.front() == kDoNothing) return kExitOk;
  look_at_processor_quietly();
  // Some loops have no number of threads from a command; LibTorch knows nothing of a cgroup's quota.
  if (const int usable = kernels::device::processors().usable(); usable < at::get_num_threads())
    model::inference::set_openmp_threads(usable);
  auto answer = answer_or_parse(with_command(std::move(words)));
  if (const int* code = std::get_if<int>(&answer)) return *code;
  AskedCommand& asked = std::get<AskedCommand>(answer);
  const std::string& name = asked.command->name;
  const auto found = std::ranges::find(command_runs, name, &CommandRun::name);
  if (found == command_runs.end())
    throw Error(ErrorCode::internal, "nothing here runs the command", name);
  const ParsedOptions options = with_config(*asked.command, std::move(asked.options));
  check_read_files(options);
  check_written_files(options);
  return found->run(options);
}

}  // namespace
}  // namespace hydrascope::app

/// Before the initialisers of all libraries, LibTorch's among them, which take memory.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const g_before_all)() noexcept = hydrascope::app::install_last_words;

int main(int argc, char** argv) {
  namespace app = hydrascope::app;
  app::keep_large_blocks();
  app::install_signal_handlers();
  app::notice_shortened_files();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const int code = app::guarded(words, [&] { return app::run(words); });
  // Everything is written and closed. LibTorch takes longer to take itself apart, operator by
  // operator, than a picture takes to classify; the system does it at once.
  std::fflush(nullptr);
  std::_Exit(code);
}
