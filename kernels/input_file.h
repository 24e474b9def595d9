// Files, pipes and devices that are read to their end, which need not come. It sits in the lowest
// room, beside error.h, because every room reads.
#pragma once

#include "kernels/error.h"

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>

namespace hydrascope {

/// The signal that asked this process to stop, as app/run/signal_stop.h notes it; 0: none.
inline std::atomic<int> g_stop_signal{0};

/// Work that is given up for such a signal throws it.
class Stopped : public Error {
 public:
  Stopped() : Error(ErrorCode::failed, "stopped by a signal") {}
};
inline void throw_if_stopped() {
  if (g_stop_signal != 0) throw Stopped();
}

/// Waits until poll(2) tells of `event` (POLLIN, POLLOUT), an end or an error. False, with errno
/// EINTR, once a stop is requested and `milliseconds` have brought nothing.
bool becomes_ready(int descriptor, short event, int milliseconds);

/// The file that a name or a descriptor leads to. A pipe, a terminal or a device may say nothing, or
/// never end: reading it throws Error(failed) once a stop is requested. A pipe without a writer
/// is waited for when it is read, not when it is opened. Reading throws Error(unreadable), too.
class InputFile final : public std::istream {
 public:
  /// The stream has failed, with errno, where there is nothing to read, as in a folder.
  explicit InputFile(const std::filesystem::path& file);
  explicit InputFile(int descriptor, std::string name = "standard input", bool is_own = false);

  /// Throws Error(not_found) or Error(unreadable) where `file` could not be opened; called at once.
  void require_open(const std::filesystem::path& file) const;
  /// Everything that is left; one byte more than `most` where there are more.
  std::string text(std::size_t most = std::string().max_size() - 1);

 private:
  std::unique_ptr<std::streambuf> buffer_;
};

}  // namespace hydrascope
