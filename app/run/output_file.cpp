#include "app/run/output_file.h"

#include "app/results/format.h"
#include "app/run/usage_error.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {

// The lock is the open description's, so that it ends with it; no program that is started keeps it.
FileLock::FileLock(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
    is_taken_ = errno == EWOULDBLOCK;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

namespace {

/// POSIX locks belong to the process and the inode, so processes that inherited one descriptor
/// exclude each other. Where there are no locks (some network file systems) it goes without.
void set_lock(int descriptor, short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  while (::fcntl(descriptor, F_SETLKW, &lock) != 0 && errno == EINTR) continue;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

AtomicWrites::int_type AtomicWrites::overflow(int_type letter) {
  if (traits_type::eq_int_type(letter, traits_type::eof())) return traits_type::not_eof(letter);
  pending_ += traits_type::to_char_type(letter);
  return letter;
}

std::streamsize AtomicWrites::xsputn(const char* text, std::streamsize count) {
  pending_.append(text, static_cast<std::size_t>(count));
  return count;
}

int AtomicWrites::sync() {
  if (pending_.empty()) return 0;
  set_lock(descriptor_, F_WRLCK);
  const bool is_written = write_all(descriptor_, pending_);
  set_lock(descriptor_, F_UNLCK);
  pending_.clear();
  return is_written ? 0 : -1;
}

OutputFile::OutputFile(const std::string& output, std::string_view option, bool among_others)
    : name_(output), is_standard_output_(output.empty() || output == "-") {
  if (is_standard_output_) {
    if (!among_others) return;
    atomic_writes_ = std::make_unique<AtomicWrites>(STDOUT_FILENO);
    file_ = std::make_unique<std::ostream>(atomic_writes_.get());
    return;
  }
  const std::string place = std::string(option) + " " + output;
  errno = 0;
  // What it holds stays until the lock is there: another run may be writing it.
  file_ = std::make_unique<std::ofstream>(output, std::ios::binary | std::ios::app);
  if (!*file_) {
    throw Error(ErrorCode::unwritable,
                "the file cannot be written: " + std::generic_category().message(errno), place);
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(output, error)) return;  // a device, a pipe
  lock_ = std::make_unique<FileLock>(output);
  if (lock_->is_taken())
    throw Error(ErrorCode::unwritable, "another run is writing this file", place);
  std::filesystem::resize_file(output, 0, error);
  if (error)
    throw Error(ErrorCode::unwritable, "the file cannot be written: " + error.message(), place);
}

void OutputFile::close() {
  errno = 0;
  stream().flush();
  if (!stream()) {
    throw Error(ErrorCode::unwritable, "not everything could be written",
                is_standard_output() ? "standard output" : name_, why_not_written(errno));
  }
}

void check_output_file(const std::string& file, std::string_view option) {
  const std::string place = std::string(option) + " " + file;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw UsageError("no such folder: " + folder.string(), place);
  if (std::filesystem::is_directory(file, ignored))
    throw UsageError("expected a file, found a folder", place);
}

}  // namespace hydrascope::app
