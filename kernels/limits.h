// Failures that the shell's limits (`ulimit`) explain, for messages. It sits in the lowest
// room, beside error.h: files, threads and memory are asked for everywhere.
#pragma once

#include "kernels/error.h"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <system_error>

namespace hydrascope {

/// The limit on a resource of getrlimit, in its unit; nothing where there is none.
template <class Resource>
std::optional<std::uint64_t> limit_on(Resource resource) noexcept {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

/// Error(out_of_memory) that names the limit on memory, where there is one.
inline Error not_enough_memory(const std::string& what = "not enough memory") {
  const auto bytes = limit_on(RLIMIT_AS);
  if (!bytes) return Error(ErrorCode::out_of_memory, what);
  return Error(ErrorCode::out_of_memory, what, std::to_string(*bytes >> 20) + " MiB",
               "`ulimit -v` sets the limit");
}

/// For a thread that cannot be started. Its stack is memory, too, and the system has one number for
/// both reasons.
inline Error no_more_threads() {
  if (limit_on(RLIMIT_AS)) return not_enough_memory("not enough memory to start a thread");
  return Error(ErrorCode::out_of_memory, "the system starts no more threads", "",
               "`ulimit -u` and a cgroup's pids.max limit them");
}

/// The limit on sizes of files as a hint, where it made writing fail with `error`; else "".
inline std::string hint_of_write(int error) {
  const auto bytes = limit_on(RLIMIT_FSIZE);
  if (error != EFBIG || !bytes) return {};
  return "`ulimit -f` limits files to " + std::to_string(*bytes) + " bytes";
}

/// Error(unwritable): "cannot be written: No space left on device". `error` is an errno.
inline Error unwritable(const std::string& what, const std::string& file, int error) {
  return Error(ErrorCode::unwritable, what + ": " + std::generic_category().message(error), file,
               hint_of_write(error));
}

}  // namespace hydrascope
