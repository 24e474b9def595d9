#include "viz/new_file.h"

#include "kernels/error.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::viz {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const char* what, const fs::path& target) {
  const std::string reason = std::generic_category().message(errno);
  throw Error(ErrorCode::unreadable, std::string(what) + ": " + reason, target.native());
}

/// Encoders choose their format by it. A name that is nearly all extension would grow too long.
std::string short_extension(const fs::path& target) {
  constexpr std::size_t kLongest = 16;
  std::string extension = target.extension().native();
  return extension.size() <= kLongest ? extension : std::string();
}

}  // namespace

PendingFile::PendingFile(const fs::path& target) : target_(target) {
  // Renaming would replace a device such as /dev/null by a file.
  std::error_code ignored;
  const fs::file_status status = fs::status(target, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw Error(ErrorCode::unreadable,
                "cannot be written: expected a file, found a folder or a device", target.native());
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  constexpr int kAttempts = 100;  // another writer in this process, or what a crash left
  const std::string prefix = ".hydrascope-" + std::to_string(::getpid()) + "-";
  int descriptor = -1;
  for (int i = 0; i < kAttempts && descriptor < 0; ++i) {
    path_ = folder / (prefix + std::to_string(i) + ".tmp" + short_extension(target));
    // Not mkostemp: the file shall have the permissions that the user's umask gives.
    descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) break;
  }
  if (descriptor < 0) fail("cannot be created", target_);
  ::close(descriptor);
}

PendingFile::~PendingFile() {
  if (!committed_) ::unlink(path_.c_str());
}

void PendingFile::commit() {
  if (::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place", target_);
  committed_ = true;
}

NewFile::NewFile(const fs::path& target)
    : file_(target), descriptor_(::open(file_.path().c_str(), O_WRONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail("cannot be created", target);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", file_.target());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::overwrite(std::int64_t position, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), position);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", file_.target());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    position += written;
  }
}

void NewFile::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be closed", file_.target());
  file_.commit();
}

}  // namespace hydrascope::viz
