// Loaded before a program (LD_PRELOAD), makes its n-th change of a folder the last one, or one that fails. A change is an opening for
// writing, a write, a sync, a renaming, a removal or a new folder, of files below FAULT_FOLDER; fault_sweep.py says what is tried.
//   FAULT_FOLDER   the folder, an absolute path
//   FAULT_COUNT    a file of 4096 bytes that all processes of the run share: how many changes there were (64 bits), and from byte 8 the
//                  one that was hit, as text
//   FAULT_AT       which change, from 1; 0 counts alone
//   FAULT_LOG      a file that gets a line for every change, if it is named
//   FAULT_KIND     kill: the process ends before the change, as by kill -9
//                  full: this change and every later one that needs space fail with ENOSPC
//                  readonly: this change and every later one fail with EROFS
//                  error: this change fails with EIO
//                  short: a write takes half of its bytes; other changes go on as they are
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

enum class Kind { kill, full, readonly, error, shortened };

struct Plan {
  std::string_view folder;
  std::uint64_t at = 0;
  Kind kind = Kind::kill;
  char* shared = nullptr;
  int log = -1;

  Plan() {
    const char* folder_name = std::getenv("FAULT_FOLDER");
    const char* count = std::getenv("FAULT_COUNT");
    if (folder_name == nullptr || count == nullptr) return;
    folder = folder_name;
    if (const char* number = std::getenv("FAULT_AT")) at = std::strtoull(number, nullptr, 10);
    const char* kind_name = std::getenv("FAULT_KIND");
    const std::string_view name = kind_name == nullptr ? "kill" : kind_name;
    kind = name == "full"       ? Kind::full
           : name == "readonly" ? Kind::readonly
           : name == "error"    ? Kind::error
           : name == "short"    ? Kind::shortened
                                : Kind::kill;
    const int file = next<int(const char*, int, ...)>("open")(count, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    next<int(int)>("close")(file);
    if (memory != MAP_FAILED) shared = static_cast<char*>(memory);
    if (const char* name_of_log = std::getenv("FAULT_LOG"))
      log = next<int(const char*, int, ...)>("open")(
          name_of_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
};

const Plan& plan() {
  static const Plan one;
  return one;
}

enum class Change { open, write, sync, rename, remove, folder };

bool needs_space(Change change) {
  return change == Change::open || change == Change::write || change == Change::sync ||
         change == Change::folder;
}

const char* name_of(Change change) {
  constexpr const char* kNames[] = {"open", "write", "sync", "rename", "remove", "mkdir"};
  return kNames[static_cast<int>(change)];
}

bool is_below(const char* path) {
  const Plan& here = plan();
  if (here.shared == nullptr || path == nullptr) return false;
  char whole[PATH_MAX];
  std::string_view text = path;
  if (*path != '/') {
    if (getcwd(whole, sizeof whole) == nullptr) return false;
    const std::size_t length = std::strlen(whole);
    std::snprintf(whole + length, sizeof whole - length, "/%s", path);
    text = whole;
  }
  return text.starts_with(here.folder);
}

/// The file of the descriptor, if that is a file below the folder; else nothing.
bool is_below(int descriptor, char (&path)[PATH_MAX]) {
  if (plan().shared == nullptr) return false;
  char link[40];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return is_below(path);
}

struct Verdict {
  int error = 0;         ///< with which it fails; 0: it does not
  bool is_half = false;  ///< a write takes half of it
};

Verdict judge(Change change, const char* path) {
  const Plan& here = plan();
  auto& count = *reinterpret_cast<std::atomic<std::uint64_t>*>(here.shared);
  const std::uint64_t number = count.fetch_add(1) + 1;
  if (here.log >= 0) {
    char line[PATH_MAX + 40];
    const int length = std::snprintf(line, sizeof line, "%s %s\n", name_of(change), path);
    next<ssize_t(int, const void*, size_t)>("write")(here.log, line, static_cast<size_t>(length));
  }
  if (here.at == 0 || number < here.at) return {};
  const bool is_it = number == here.at;
  if (is_it) std::snprintf(here.shared + 8, 4000, "%s %s", name_of(change), path);
  switch (here.kind) {
    case Kind::kill:
      if (is_it) raise(SIGKILL);
      return {};
    case Kind::full: return {needs_space(change) ? ENOSPC : 0};
    case Kind::readonly: return {EROFS};
    case Kind::error: return {is_it ? EIO : 0};
    case Kind::shortened: return {0, is_it && change == Change::write};
  }
  return {};
}

Verdict judge_path(Change change, const char* path) {
  return is_below(path) ? judge(change, path) : Verdict{};
}

Verdict judge_descriptor(Change change, int descriptor) {
  char path[PATH_MAX];
  return is_below(descriptor, path) ? judge(change, path) : Verdict{};
}

/// -1 with the verdict's error, or what the function says.
template <class Call>
auto unless_failed(Verdict verdict, Call call) -> decltype(call()) {
  if (verdict.error == 0) return call();
  errno = verdict.error;
  return -1;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }
bool writes(const char* mode) { return std::strpbrk(mode, "wa+") != nullptr; }

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

#define HYDRASCOPE_OPEN(name)                                                              \
  int name(const char* path, int flags, ...) {                                             \
    va_list arguments;                                                                     \
    va_start(arguments, flags);                                                            \
    const mode_t mode = mode_of(flags, arguments);                                         \
    va_end(arguments);                                                                     \
    return unless_failed(writes(flags) ? judge_path(Change::open, path) : Verdict{}, [&] { \
      return next<int(const char*, int, ...)>(#name)(path, flags, mode);                   \
    });                                                                                    \
  }
HYDRASCOPE_OPEN(open)
HYDRASCOPE_OPEN(open64)

#define HYDRASCOPE_FOPEN(name)                                                               \
  FILE* name(const char* path, const char* mode) {                                           \
    const Verdict verdict = writes(mode) ? judge_path(Change::open, path) : Verdict{};       \
    if (verdict.error == 0) return next<FILE*(const char*, const char*)>(#name)(path, mode); \
    errno = verdict.error;                                                                   \
    return nullptr;                                                                          \
  }
HYDRASCOPE_FOPEN(fopen)
HYDRASCOPE_FOPEN(fopen64)

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const Verdict verdict = judge_descriptor(Change::write, descriptor);
  const size_t taken = verdict.is_half && count > 1 ? count / 2 : count;
  return unless_failed(verdict, [&] {
    return next<ssize_t(int, const void*, size_t)>("write")(descriptor, bytes, taken);
  });
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  const Verdict verdict = judge_descriptor(Change::write, descriptor);
  const int taken = verdict.is_half && count > 1 ? count / 2 : count;
  return unless_failed(verdict, [&] {
    return next<ssize_t(int, const iovec*, int)>("writev")(descriptor, pieces, taken);
  });
}

#define HYDRASCOPE_PWRITE(name)                                                              \
  ssize_t name(int descriptor, const void* bytes, size_t count, off_t position) {            \
    const Verdict verdict = judge_descriptor(Change::write, descriptor);                     \
    const size_t taken = verdict.is_half && count > 1 ? count / 2 : count;                   \
    return unless_failed(verdict, [&] {                                                      \
      return next<ssize_t(int, const void*, size_t, off_t)>(#name)(descriptor, bytes, taken, \
                                                                   position);                \
    });                                                                                      \
  }
HYDRASCOPE_PWRITE(pwrite)
HYDRASCOPE_PWRITE(pwrite64)

int fsync(int descriptor) {
  return unless_failed(judge_descriptor(Change::sync, descriptor),
                       [&] { return next<int(int)>("fsync")(descriptor); });
}

int ftruncate(int descriptor, off_t length) {
  return unless_failed(judge_descriptor(Change::write, descriptor),
                       [&] { return next<int(int, off_t)>("ftruncate")(descriptor, length); });
}

int truncate(const char* path, off_t length) {
  return unless_failed(judge_path(Change::write, path),
                       [&] { return next<int(const char*, off_t)>("truncate")(path, length); });
}

int rename(const char* from, const char* to) {
  return unless_failed(judge_path(Change::rename, to),
                       [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}

int unlink(const char* path) {
  return unless_failed(judge_path(Change::remove, path),
                       [&] { return next<int(const char*)>("unlink")(path); });
}

int remove(const char* path) {
  return unless_failed(judge_path(Change::remove, path),
                       [&] { return next<int(const char*)>("remove")(path); });
}

int mkdir(const char* path, mode_t mode) {
  return unless_failed(judge_path(Change::folder, path),
                       [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

}  // extern "C"
