#include "model/checkpoint/formats/mapped_file.h"

#include "kernels/error.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

struct Mapping {
  std::size_t size = 0;
  std::string file;
};

// Every mapped file by its beginning. DONTNEED on other memory would wipe it.
std::mutex mappings_mutex;
std::map<const std::byte*, Mapping> mappings;

/// The mapping that holds the address. The caller holds the mutex.
auto mapping_at(const std::byte* address) {
  const auto after = mappings.upper_bound(address);
  if (after == mappings.begin()) return mappings.end();
  const auto found = std::prev(after);
  return address < found->first + found->second.size ? found : mappings.end();
}

std::string reason(int error) { return std::generic_category().message(error); }

/// The mapping keeps the file alive, so the descriptor lives only as long as the constructor.
struct Descriptor {
  int value;
  explicit Descriptor(int opened) : value(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  // Without O_NONBLOCK a named pipe would wait for a writer before it can be refused.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.value < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      std::error_code ignored;
      throw Error(ErrorCode::not_found,
                  std::filesystem::is_symlink(file, ignored)
                      ? "the file is a link to one that does not exist"
                      : "there is no such file",
                  file.native());
    }
    throw Error(ErrorCode::unreadable, "the file cannot be opened: " + reason(error),
                file.native());
  }
  struct stat status {};
  if (::fstat(descriptor.value, &status) != 0) {
    throw Error(ErrorCode::unreadable, "the file cannot be examined: " + reason(errno),
                file.native());
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::unreadable, "expected a file, found a folder", file.native());
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::unreadable, "expected a regular file, found a pipe or a device",
                file.native());
  }
  if (status.st_size == 0) return;  // mmap refuses a length of zero
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (address == MAP_FAILED) {
    throw Error(ErrorCode::unreadable, "the file cannot be mapped: " + reason(errno),
                file.native());
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
  const std::lock_guard lock(mappings_mutex);
  mappings[bytes_.data()] = {size, file.string()};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  const std::lock_guard lock(mappings_mutex);
  mappings.erase(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string_view mapped_file_at(const void* address) noexcept {
  const std::lock_guard lock(mappings_mutex);
  const auto found = mapping_at(static_cast<const std::byte*>(address));
  return found == mappings.end() ? std::string_view() : std::string_view(found->second.file);
}

void release_pages(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kFew = std::size_t{1} << 20;  // not worth a call for each tensor
  if (bytes.size() < kFew) return;
  const std::lock_guard lock(mappings_mutex);
  const auto found = mapping_at(bytes.data());
  if (found == mappings.end()) return;
  const auto& [start, mapping] = *found;
  const std::size_t size = mapping.size;
  if (bytes.data() + bytes.size() > start + size) return;
  // Whole pages only, counted from the mapping's beginning, which is a page's.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<std::size_t>(bytes.data() - start) / page * page;
  const auto end = std::min(
      (static_cast<std::size_t>(bytes.data() - start) + bytes.size() + page - 1) / page * page,
      size);
  ::madvise(const_cast<std::byte*>(start) + first, end - first, MADV_DONTNEED);
}

}  // namespace hydrascope::checkpoint
