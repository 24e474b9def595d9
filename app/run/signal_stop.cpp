#include "app/run/signal_stop.h"

#include <atomic>
#include <cerrno>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace hydrascope::app {
namespace {

constexpr int kSignalExitBase = 128;

std::atomic<int> g_stop_signal{0};
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

bool stop_requested() noexcept { return stop_signal() != 0; }

int stop_signal() noexcept { return g_stop_signal.load(); }

int exit_code_after_stop(int otherwise) noexcept {
  const int signal_number = stop_signal();
  return signal_number == 0 ? otherwise : kSignalExitBase + signal_number;
}

StoppableInput::int_type StoppableInput::underflow() {
  // Short enough to seem immediate, long enough to cost nothing. A timeout instead of a bare wait,
  // because the signal may be delivered to another thread or just before the wait.
  constexpr int kPollMilliseconds = 100;
  while (!stop_requested()) {
    pollfd waiting{descriptor_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kPollMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = ::read(descriptor_, buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }
  return traits_type::eof();
}

}  // namespace hydrascope::app
