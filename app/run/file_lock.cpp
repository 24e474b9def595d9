#include "app/run/file_lock.h"

#include "kernels/number_text.h"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Whether the process has `file` open with a lock on it. A lock belongs to the open description,
/// which is listed with each descriptor.
bool has_lock(const fs::path& process, const struct stat& file) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(process / "fd", ignored)) {
    struct stat opened {};
    if (::stat(entry.path().c_str(), &opened) != 0 || !is_same(opened, file)) continue;
    std::ifstream facts(process / "fdinfo" / entry.path().filename());
    for (std::string line; std::getline(facts, line);)
      if (line.starts_with("lock:") && line.find("FLOCK") != line.npos) return true;
  }
  return false;
}

/// The process that has locked it, by /proc: nothing has to be written, so nothing is left of a run
/// that was killed.
std::optional<pid_t> process_with_lock(const struct stat& file) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto process = parse_number<pid_t>(entry.path().filename().native());
    if (process && process != ::getpid() && has_lock(entry.path(), file)) return process;
  }
  return std::nullopt;
}

}  // namespace

// The lock is the open description's, so that it ends with it; no program that is started keeps it.
FileLock::FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
    is_taken_ = errno == EWOULDBLOCK;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string FileLock::holder() const {
  struct stat locked {};
  const bool is_known = ::fstat(descriptor_, &locked) == 0;
  const std::optional<pid_t> process = is_known ? process_with_lock(locked) : std::nullopt;
  return process ? "another run (process " + std::to_string(*process) + ")" : "another run";
}

bool FileLock::is_of(const fs::path& path) const noexcept {
  struct stat locked {};
  struct stat named {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &locked) != 0) return true;
  return ::stat(path.c_str(), &named) == 0 && is_same(locked, named);
}

int FileLock::sync() const noexcept {
  if (descriptor_ < 0 || ::fsync(descriptor_) == 0) return 0;
  return errno == EINVAL ? 0 : errno;  // a file system without syncs
}

}  // namespace hydrascope::app
