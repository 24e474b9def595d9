#include "app/run/last_words.h"

#include "app/command.h"

#include <exception>
#include <new>
#include <string_view>
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
      end_with("error: the system gives no more threads or memory (ulimit -u, ulimit -v)\n");
    } catch (...) {  // a fault of the program
    }
  }
  if (g_earlier != nullptr) g_earlier();
  std::abort();
}

}  // namespace

void install_last_words() noexcept { g_earlier = std::set_terminate(say_last_words); }

}  // namespace hydrascope::app
