// Loaded before a program (LD_PRELOAD), makes files hostile by their names. To open one whose name begins with
//   crash    ends the process as a decoder does that writes where it must not
//   hang     never returns
//   hungry   ends the process, unless it may map a terabyte
// as does a file without a name (/proc/PID/fd/N) that begins so,
// and the file whose name begins with "shortened" loses all but its first SHORTENED_TO bytes when it has been mapped to be read.
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_named(const char* path, std::string_view begin) {
  if (std::string_view(path).starts_with("/proc/") && std::strstr(path, "/fd/") != nullptr) {
    char bytes[8] = {};
    const int file = next<int(const char*, int, ...)>("open")(path, O_RDONLY | O_CLOEXEC);
    const bool is_read = file >= 0 && read(file, bytes, sizeof bytes) == sizeof bytes;
    close(file);
    return is_read && std::string_view(bytes, sizeof bytes).starts_with(begin);
  }
  const char* slash = std::strrchr(path, '/');
  return std::string_view(slash == nullptr ? path : slash + 1).starts_with(begin);
}

void suffer(const char* path) {
  if (is_named(path, "crash")) raise(SIGSEGV);
  while (is_named(path, "hang")) pause();
  constexpr size_t kTerabyte = size_t{1} << 40;
  if (is_named(path, "hungry") &&
      next<void*(void*, size_t, int, int, int, off_t)>("mmap")(
          nullptr, kTerabyte, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
          MAP_FAILED)
    raise(SIGABRT);
}

}  // namespace

extern "C" {

#define HYDRASCOPE_OPEN(name)                                            \
  int name(const char* path, int flags, ...) {                           \
    va_list more;                                                        \
    va_start(more, flags);                                               \
    const auto mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                        \
    suffer(path);                                                        \
    return next<int(const char*, int, ...)>(#name)(path, flags, mode);   \
  }

HYDRASCOPE_OPEN(open)
HYDRASCOPE_OPEN(open64)

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  void* mapped = next<void*(void*, size_t, int, int, int, off_t)>("mmap")(address, size, protection,
                                                                          flags, file, offset);
  const char* length = std::getenv("SHORTENED_TO");
  if (file < 0 || length == nullptr) return mapped;
  char link[40];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t count = readlink(link, path, sizeof path - 1);
  if (count <= 0) return mapped;
  path[count] = 0;
  // It is mapped three times: to see what it is, whether it is a list of shards, and to be read.
  static int times = 0;
  if (is_named(path, "shortened") && ++times == 3 && truncate(path, std::atol(length)) != 0)
    abort();
  return mapped;
}

}  // extern "C"
