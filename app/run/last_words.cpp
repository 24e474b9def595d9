#include "app/run/last_words.h"

#include "app/run/exit_code.h"
#include "kernels/limits.h"

#include <exception>
#include <new>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {
namespace {

std::terminate_handler g_earlier = nullptr;

[[noreturn]] void end_with(std::string_view line) {
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  _exit(kExitFailed);
}

[[noreturn]] void say_last_words() noexcept {
  if (std::current_exception()) {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      end_with("error: not enough memory\n");
    } catch (const std::system_error&) {
      end_with(limit_on(RLIMIT_AS)
                   ? "error: not enough memory to start a thread (ulimit -v sets the limit)\n"
                   : "error: the system starts no more threads (ulimit -u, a cgroup's pids.max)\n");
    } catch (...) {  // a fault of the program
    }
  }
  if (g_earlier != nullptr) g_earlier();
  std::abort();
}

}  // namespace

void install_last_words() noexcept { g_earlier = std::set_terminate(say_last_words); }

}  // namespace hydrascope::app
