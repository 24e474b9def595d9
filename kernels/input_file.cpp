#include "kernels/input_file.h"

#include "kernels/error.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <ios>
#include <iterator>
#include <poll.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope {
namespace {

class DescriptorInput final : public std::streambuf {
 public:
  DescriptorInput(int descriptor, std::string name, bool is_own)
      : descriptor_(descriptor), name_(std::move(name)), is_own_(is_own) {
    struct stat facts {};
    has_end_ = descriptor >= 0 && ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  }
  ~DescriptorInput() override {
    if (is_own_ && descriptor_ >= 0) ::close(descriptor_);
  }

 protected:
  int_type underflow() override {
    // Short enough to seem immediate, long enough to cost nothing. A timeout instead of a bare
    // wait, because the signal may be delivered to another thread or just before the wait.
    constexpr int kMilliseconds = 100;
    ssize_t count = 0;
    do {
      if (!has_end_ && (g_stop_signal != 0 || !becomes_ready(descriptor_, POLLIN, kMilliseconds)))
        throw Error(ErrorCode::failed, "stopped by a signal before it was read", name_);
      count = ::read(descriptor_, bytes_.data(), bytes_.size());
    } while (count < 0 && (errno == EINTR || errno == EAGAIN));
    if (count < 0)
      throw Error(ErrorCode::unreadable,
                  "reading failed: " + std::generic_category().message(errno), name_);
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return count == 0 ? traits_type::eof() : traits_type::to_int_type(bytes_.front());
  }

 private:
  int descriptor_;
  std::string name_;
  bool is_own_;
  bool has_end_;
  std::array<char, 1 << 16> bytes_;
};

/// Nothing, with errno, for a folder too, which open(2) takes.
int open_to_read(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat facts {};
  if (descriptor < 0 || ::fstat(descriptor, &facts) != 0 || !S_ISDIR(facts.st_mode))
    return descriptor;
  ::close(descriptor);
  errno = EISDIR;
  return -1;
}

}  // namespace

bool becomes_ready(int descriptor, short event, int milliseconds) {
  pollfd waiting{descriptor, event, 0};
  int ready = 0;
  while ((ready = ::poll(&waiting, 1, milliseconds)) <= 0) {
    if (ready < 0 || g_stop_signal == 0) continue;
    errno = EINTR;
    return false;
  }
  return true;
}

InputFile::InputFile(const std::filesystem::path& file)
    : InputFile(open_to_read(file), file.string(), /*is_own=*/true) {}

InputFile::InputFile(int descriptor, std::string name, bool is_own)
    : std::istream(nullptr),
      buffer_(std::make_unique<DescriptorInput>(descriptor, std::move(name), is_own)) {
  if (descriptor < 0) return;
  rdbuf(buffer_.get());
  exceptions(std::ios::badbit);  // what the buffer throws is thrown, not noted
}

void InputFile::require_open(const std::filesystem::path& file) const {
  if (*this) return;
  const bool is_missing = errno == ENOENT || errno == ENOTDIR;
  throw Error(
      is_missing ? ErrorCode::not_found : ErrorCode::unreadable,
      is_missing ? "no such file" : "cannot be opened: " + std::generic_category().message(errno),
      file.string());
}

std::string InputFile::text(std::size_t most) {
  std::string text;
  for (std::istreambuf_iterator<char> byte(*this), none; byte != none && text.size() <= most;
       ++byte)
    text += *byte;
  return text;
}

}  // namespace hydrascope
