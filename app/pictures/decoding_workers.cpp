#include "app/pictures/decoding_workers.h"

#include "app/run/console.h"
#include "app/run/own_program.h"
#include "kernels/error.h"
#include "kernels/number_text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <span>
#include <spawn.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

/// Before the file's name.
struct Question {
  std::int64_t max_pixels = 0;
  std::int64_t max_bytes = 0;
  double seconds = 0;
  std::uint32_t name_size = 0;
  std::uint8_t applies_exif = 0;
  std::array<std::uint8_t, 3> background{};
};

/// Before its bytes: the pixels, or the reason why there are none with a hint at its end.
struct Answer {
  std::int32_t error = -1;  ///< an ErrorCode
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::uint32_t hint_size = 0;
  std::uint64_t size = 0;
};

/// All bytes of `values` are sent, or received.
template <class Values>
bool transfer(int socket, Values& values, bool is_sent) {
  auto* at = const_cast<char*>(reinterpret_cast<const char*>(values.data()));
  for (std::size_t left = values.size() * sizeof(values[0]); left > 0;) {
    const ssize_t count =
        is_sent ? ::send(socket, at, left, MSG_NOSIGNAL) : ::recv(socket, at, left, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    left -= static_cast<std::size_t>(count);
  }
  return true;
}

/// A process that a hostile picture has taken over may say anything.
bool is_valid(const Answer& answer, std::int64_t max_pixels) {
  constexpr std::uint64_t kLongestText = 1 << 16;
  if (answer.error >= 0)
    return answer.error <= static_cast<std::int32_t>(ErrorCode::failed) &&
           answer.size <= kLongestText && answer.hint_size <= answer.size;
  const std::int64_t pixels = std::int64_t{answer.width} * answer.height;
  return answer.width > 0 && answer.height > 0 && pixels <= max_pixels &&
         std::cmp_equal(answer.size, 3 * pixels);
}

std::string how_it_ended(int status, double seconds) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return "decoding took longer than " + shortest_number(seconds) + " seconds";
  if (WIFSIGNALED(status))
    return std::string("the decoder crashed: ") + ::strsignal(WTERMSIG(status));
  return "the decoder ended with exit code " + std::to_string(WEXITSTATUS(status));
}

struct ClosedAtEnd {
  int descriptor;
  ~ClosedAtEnd() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

/// Ends the process that many seconds from now; 0: never.
void set_alarm(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void limit_memory([[maybe_unused]] const Question& question) {
#ifndef __SANITIZE_ADDRESS__  // it reserves more than any limit
  // Libraries, the file, and a pixel as it is stored (four channels of 16 bits), as RGB, turned, and
  // to spare.
  constexpr rlim_t kProgram = rlim_t{1} << 30;
  constexpr rlim_t kOfPixel = 8 + 3 + 3 + 3;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return;
  const rlim_t wanted = kProgram + 2 * static_cast<rlim_t>(question.max_bytes) +
                        kOfPixel * static_cast<rlim_t>(question.max_pixels);
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace

DecodingWorkers::DecodingWorkers(fs::path program, double seconds)
    : program_(std::move(program)), seconds_(seconds) {}

DecodingWorkers::~DecodingWorkers() {
  for (const Worker& worker : idle_) end(worker);
}

DecodingWorkers::Worker DecodingWorkers::take() {
  std::unique_lock lock(mutex_);
  if (idle_.empty()) {
    lock.unlock();  // a start takes milliseconds, in which others ask theirs
    return start();
  }
  Worker worker = idle_.back();
  idle_.pop_back();
  return worker;
}

DecodingWorkers::Worker DecodingWorkers::start() const {
  const auto fail = [&](int error) {
    throw Error(ErrorCode::failed,
                "no process can be started to decode: " + std::generic_category().message(error),
                program_.string());
  };
  // No other process gets them, or an end would not be noticed.
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) fail(errno);
  Worker worker{.socket = sockets[0]};
  std::string name = program_.string();
  std::string command(kDecodePictures);
  std::string socket = std::to_string(sockets[1]);
  const std::array<char*, 4> words{name.data(), command.data(), socket.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, sockets[1], sockets[1]);
  // Results go there, which nothing that a decoder prints belongs to.
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  const int error =
      ::posix_spawn(&worker.process, name.c_str(), &actions, nullptr, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(sockets[1]);
  if (error != 0) {
    ::close(sockets[0]);
    fail(error);
  }
  return worker;
}

int DecodingWorkers::end(const Worker& worker) noexcept {
  ::close(worker.socket);
  ::kill(worker.process, SIGKILL);  // changes nothing where it has ended
  int status = 0;
  while (::waitpid(worker.process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

image::Picture DecodingWorkers::read(const fs::path& file, const image::DecodeOptions& options) {
  const std::string& name = file.native();
  const std::array question{Question{
      options.max_pixels, options.max_bytes, seconds_, static_cast<std::uint32_t>(name.size()),
      static_cast<std::uint8_t>(options.apply_exif ? 1 : 0), options.background}};
  while (true) {
    Worker worker = take();
    std::array<Answer, 1> received;
    const Answer& answer = received[0];
    std::vector<std::uint8_t> bytes;
    bool has_answer = false;
    try {
      has_answer = transfer(worker.socket, question, true) && transfer(worker.socket, name, true) &&
                   transfer(worker.socket, received, false) && is_valid(answer, options.max_pixels);
      if (has_answer) bytes.resize(answer.size);
      has_answer = has_answer && transfer(worker.socket, bytes, false);
    } catch (const std::bad_alloc&) {
      end(worker);
      throw;
    }
    if (!has_answer) {  // it has ended, or does not keep to the order of things
      const int status = end(worker);
      const bool is_late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
      if (!worker.is_new && !is_late) continue;
      throw Error(ErrorCode::decode_failed, how_it_ended(status, seconds_), name);
    }
    worker.is_new = false;
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(worker);
    }
    if (answer.error < 0) return {answer.width, answer.height, std::move(bytes)};
    const std::string text(bytes.begin(), bytes.end());
    const std::size_t hint = text.size() - answer.hint_size;
    throw Error(static_cast<ErrorCode>(answer.error), text.substr(0, hint), name,
                text.substr(hint));
  }
}

image::PictureReader& decoding_workers(double seconds) {
  static DecodingWorkers workers(
      [] {
        // Beside the engine where it was built; the engine is in libexec/ where it was installed.
        std::error_code error;
        const fs::path folder = own_file().parent_path();
        const fs::path built = folder / "hydrascope";
        return fs::exists(built, error) ? built
                                        : folder.parent_path().parent_path() / "bin/hydrascope";
      }(),
      seconds);
  return workers;
}

image::Picture decode_bytes(std::span<const std::byte> bytes, const image::DecodeOptions& options) {
  if (options.reader == nullptr) return image::decode(bytes, options);
  const ClosedAtEnd memory{::memfd_create("picture", MFD_CLOEXEC)};
  const std::string file =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory.descriptor);
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  stream.close();
  if (!stream)
    throw Error(ErrorCode::failed,
                "no file in memory can be made: " + std::generic_category().message(errno));
  return options.reader->read(file, options);
}

int decode_pictures_for(int socket) {
  // A signal that a terminal or a service manager sends to all is for the process that asks, which ends this
  // one by ending.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_IGN);
  std::signal(SIGALRM, SIG_DFL);
  std::array<Question, 1> received;
  while (transfer(socket, received, false)) {
    const Question& question = received[0];
    std::string name(question.name_size, '\0');
    if (!transfer(socket, name, false)) break;
    limit_memory(question);
    set_alarm(question.seconds);
    image::DecodeOptions options;
    options.apply_exif = question.applies_exif != 0;
    options.max_pixels = question.max_pixels;
    options.max_bytes = question.max_bytes;
    options.background = question.background;
    std::array<Answer, 1> answer;
    std::vector<std::uint8_t> bytes;
    try {
      image::Picture picture = image::read_picture(name, options);
      answer[0] = {.width = picture.width, .height = picture.height};
      bytes = std::move(picture.rgb);
    } catch (...) {
      const Error error = as_error(std::current_exception());
      const std::string text = error.what() + error.hint();
      bytes.assign(text.begin(), text.end());
      answer[0] = {.error = static_cast<std::int32_t>(error.code()),
                   .hint_size = static_cast<std::uint32_t>(error.hint().size())};
    }
    set_alarm(0);
    answer[0].size = bytes.size();
    if (!transfer(socket, answer, true) || !transfer(socket, bytes, true)) break;
  }
  return 0;
}

}  // namespace hydrascope::app
