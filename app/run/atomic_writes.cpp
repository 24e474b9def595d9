#include "app/run/atomic_writes.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace hydrascope::app {
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

}  // namespace hydrascope::app
