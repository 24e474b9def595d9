#include "app/run/signal_stop.h"

#include "kernels/input_file.h"

#include <atomic>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace hydrascope::app {
namespace {

constexpr int kSignalExitBase = 128;

static_assert(std::atomic<int>::is_always_lock_free,
              "the handler may only touch lock-free atomics");

extern "C" void handle_stop(int signal_number) {
  int none = 0;
  if (!g_stop_signal.compare_exchange_strong(none, signal_number)) {
    _exit(kSignalExitBase + signal_number);
  }
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = handle_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction inherited {};
  sigaction(SIGHUP, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &action, nullptr);
}

HeldPipeSignal::HeldPipeSignal() { ::signal(SIGPIPE, SIG_IGN); }
HeldPipeSignal::~HeldPipeSignal() { ::signal(SIGPIPE, SIG_DFL); }

bool HeldPipeSignal::reader_is_gone() noexcept {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

void HeldPipeSignal::end_quietly() noexcept {
  ::signal(SIGPIPE, SIG_DFL);
  ::raise(SIGPIPE);
  _exit(kSignalExitBase + SIGPIPE);
}

bool stop_requested() noexcept { return g_stop_signal != 0; }

int exit_code_after_stop(int otherwise) noexcept {
  const int signal_number = g_stop_signal;
  return signal_number == 0 ? otherwise : kSignalExitBase + signal_number;
}

}  // namespace hydrascope::app
