#include "kernels/new_file.h"

#include "kernels/error.h"
#include "kernels/limits.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* what, const fs::path& target) {
  throw unwritable(what, target.native(), errno);
}

/// Encoders choose their format by it. A name that is nearly all extension would grow too long.
std::string short_extension(const fs::path& target) {
  constexpr std::size_t kLongest = 16;
  std::string extension = target.extension().native();
  return extension.size() <= kLongest ? extension : std::string();
}

/// The name has a fixed length: the target's own name may be as long as names can be.
std::string hidden_name(const fs::path& target) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), ".hydrascope-%016zx",
                std::hash<std::string_view>{}(target.filename().native()));
  return name.data();
}

/// Is `descriptor` what the name stands for, a file of ours and of that name alone?
bool is_ours(int descriptor, const fs::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino &&
         S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid() && opened.st_nlink == 1;
}

/// A descriptor of an empty file of that name that nobody else writes, or -1 and errno: EEXIST if
/// another name has to be tried. Whoever writes a file holds a lock on it, so one that is there
/// without a lock was left by a program that was killed. A file that is there is never taken on file
/// systems without locks (some network file systems).
int take(const fs::path& path) {
  // Not mkostemp: the file shall have the permissions that the user's umask gives.
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool is_new = descriptor >= 0;
  if (!is_new) {
    if (errno != EEXIST) return -1;
    descriptor = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  }
  if (descriptor >= 0) {
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      if (is_ours(descriptor, path)) {
        if (::ftruncate(descriptor, 0) == 0) return descriptor;
        if (is_new) ::unlink(path.c_str());
      }
    } else if (is_new && errno != EWOULDBLOCK) {
      return descriptor;
    }
    ::close(descriptor);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

PendingFile::PendingFile(const fs::path& target) : target_(end_of_links(target)) {
  // Renaming would replace a device such as /dev/null by a file, and the file that a stream appends to.
  if (open_stream(target))
    throw Error(ErrorCode::unwritable, "cannot be written: expected a file, found an open stream",
                target.native());
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (error == std::errc::filename_too_long) {  // the hidden name is not
    errno = ENAMETOOLONG;
    fail("cannot be created", target);
  }
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Error(ErrorCode::unwritable,
                "cannot be written: expected a file, found a folder or a device", target.native());
  constexpr int kAttempts = 100;  // other writers of the same file
  const std::string name = hidden_name(target);
  for (int i = 0; i < kAttempts && descriptor_ < 0; ++i) {
    path_ =
        target_.parent_path() / (name + "-" + std::to_string(i) + ".tmp" + short_extension(target));
    descriptor_ = take(path_);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail("cannot be created", target_);
}

PendingFile::~PendingFile() {
  if (!committed_) ::unlink(path_.c_str());
  ::close(descriptor_);
}

void PendingFile::commit(bool sync_name) {
  // Contents first, then the name, then the folder that holds the name.
  if (::fsync(descriptor_) != 0) fail("cannot be synced", target_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place", target_);
  committed_ = true;
  if (!sync_name) return;
  const fs::path place = target_.parent_path();
  const int folder =
      ::open(place.empty() ? "." : place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not listed
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // Some network file systems have no sync of folders, and say so with EINVAL.
  if (error != 0 && error != EINVAL) {
    errno = error;
    fail("is written, but its folder cannot be synced", target_);
  }
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.descriptor(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", file_.target());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::overwrite(std::int64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.descriptor(), bytes.data(), bytes.size(), position);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", file_.target());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    position += written;
  }
}

}  // namespace hydrascope
