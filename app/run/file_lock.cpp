#include "app/run/file_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hydrascope::app {

namespace fs = std::filesystem;

// The lock is the open description's, so that it ends with it; no program that is started keeps it.
FileLock::FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0)
    is_taken_ = errno == EWOULDBLOCK;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileLock::is_of(const fs::path& path) const noexcept {
  struct stat locked {};
  struct stat named {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &locked) != 0) return true;
  return ::stat(path.c_str(), &named) == 0 && locked.st_dev == named.st_dev &&
         locked.st_ino == named.st_ino;
}

int FileLock::sync() const noexcept {
  if (descriptor_ < 0 || ::fsync(descriptor_) == 0) return 0;
  return errno == EINVAL ? 0 : errno;  // a file system without syncs
}

}  // namespace hydrascope::app
