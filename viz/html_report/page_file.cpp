#include "viz/html_report/page_file.h"

#include "kernels/error.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::viz::page {

namespace fs = std::filesystem;

PageFile::PageFile(fs::path target) : target_(std::move(target)) {
  // Renaming would replace a device such as /dev/null by a file.
  std::error_code ignored;
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw Error(ErrorCode::unreadable,
                "cannot be written: expected a file, found a folder or a device", target_.native());
  }
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  constexpr int kAttempts = 100;  // another writer in this process, or what a crash left
  const std::string prefix = ".hydrascope-" + std::to_string(::getpid()) + "-";
  for (int i = 0; i < kAttempts && descriptor_ < 0; ++i) {
    temporary_ = folder / (prefix + std::to_string(i) + ".html.tmp");
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail("cannot be created");
}

PageFile::~PageFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void PageFile::append(std::string_view text) {
  write_at(size_, text);
  size_ += static_cast<std::int64_t>(text.size());
}

void PageFile::overwrite(std::int64_t position, std::string_view text) { write_at(position, text); }

void PageFile::write_at(std::int64_t position, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), position);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    text.remove_prefix(static_cast<std::size_t>(written));
    position += written;
  }
}

void PageFile::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be closed");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place");
  committed_ = true;
}

void PageFile::fail(const char* what) const {
  const std::string reason = std::generic_category().message(errno);
  throw Error(ErrorCode::unreadable, std::string(what) + ": " + reason, target_.native());
}

}  // namespace hydrascope::viz::page
