#include "app/run/local_ranks.h"

#include "app/run/own_program.h"
#include "kernels/error.h"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hydrascope::app {

namespace {

constexpr const char* kMark = "HYDRASCOPE_STARTED_BY_RANK_0";

/// The ranks of the LocalRanks that has any; null if there is none.
const std::vector<pid_t>* g_running = nullptr;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::failed, what + ": " + std::strerror(errno), "`processes`");
}

/// A port of this machine that nothing listens at.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) fail("no socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound =
      ::bind(socket, generic, size) == 0 && ::getsockname(socket, generic, &size) == 0;
  ::close(socket);
  if (!is_bound) fail("no free port");
  return ntohs(address.sin_port);
}

void set(const char* name, const std::string& value) {
  if (::setenv(name, value.c_str(), 1) != 0) fail("the environment is full");
}

pid_t start(const OwnProgram& program, int rank) {
  std::vector<std::string> words = program.words;
  const std::vector<char*> arguments = exec_words(words);
  set("RANK", std::to_string(rank));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("rank " + std::to_string(rank) + " cannot be started");
  if (child > 0) return child;
  // Only what is safe between fork and exec. A rank whose rank 0 is gone has nothing to end for.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == parent) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
    ::execv(program.file.c_str(), arguments.data());
  }
  constexpr int kNotStarted = 127;
  ::_exit(kNotStarted);
}

/// The exit code, 128 + the signal's number where one ended it.
int wait_for(pid_t process) {
  constexpr int kSignal = 128;
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
}

}  // namespace

LocalRanks::LocalRanks(int count) {
  if (count <= 1) return;
  const auto program = own_program();
  if (!program) {
    throw Error(ErrorCode::failed, "the program's own file is not known", "`processes`",
                "is /proc mounted?");
  }
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(free_port()));
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set(name, std::to_string(count));
  set(kMark, "1");
  for (int rank = 1; rank < count; ++rank) running_.push_back(start(*program, rank));
  ::unsetenv(kMark);
  set("RANK", "0");
  g_running = &running_;
}

LocalRanks::~LocalRanks() {
  g_running = nullptr;
  for (const pid_t process : running_) {
    ::kill(process, SIGKILL);
    wait_for(process);
  }
}

int LocalRanks::wait(int code) {
  for (; !running_.empty(); running_.pop_back()) {
    const int of_rank = wait_for(running_.back());
    if (code == 0) code = of_rank;
  }
  return code;
}

void LocalRanks::require_all_running() {
  if (g_running == nullptr) return;
  for (std::size_t i = 0; i < g_running->size(); ++i) {
    siginfo_t info{};
    // It is left for `wait`.
    const int flags = WEXITED | WNOHANG | WNOWAIT;
    if (::waitid(P_PID, static_cast<id_t>((*g_running)[i]), &info, flags) != 0 || info.si_pid == 0)
      continue;
    const bool is_killed = info.si_code != CLD_EXITED;
    throw Error(ErrorCode::failed,
                "rank " + std::to_string(i + 1) +
                    (is_killed ? " was ended by signal " : " ended with exit code ") +
                    std::to_string(info.si_status) + " before the run began",
                "`processes`", is_killed ? "out of memory? `processes` 1 takes less" : "");
  }
}

bool LocalRanks::started_this_process() noexcept { return std::getenv(kMark) != nullptr; }

}  // namespace hydrascope::app
