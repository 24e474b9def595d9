#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "model/checkpoint/safetensors.h"

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;

/// A file that disappears unless it is committed under its final name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target), path_(target.string() + ".XXXXXX") {
    std::string name = path_.string();
    descriptor_ = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail("cannot be written");
    path_ = name;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  /// Contents first, then the name: after a crash there is the old file or the whole new one.
  void commit() {
    constexpr mode_t kReadableByAll = 0644;
    if (fchmod(descriptor_, kReadableByAll) != 0 || fsync(descriptor_) != 0) fail("cannot be written");
    if (rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place");
    close(descriptor_);
    descriptor_ = -1;
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    if (const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); handle >= 0) {
      fsync(handle);
      close(handle);
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::unreadable, std::string(what) + ": " + std::strerror(errno), target_.string());
  }

  fs::path target_;
  fs::path path_;
  int descriptor_ = -1;
};

void check_size(const TensorView& view) {
  std::uint64_t bytes = size_of(view.dtype);
  for (const std::int64_t size : view.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      throw Error(ErrorCode::invalid_argument, "a negative or overflowing dimension", view.name);
    }
  }
  if (bytes != view.data.size()) {
    throw Error(ErrorCode::invalid_argument,
                "shape and dtype need " + std::to_string(bytes) + " bytes, found " + std::to_string(view.data.size()), view.name);
  }
}

}  // namespace

void write_safetensors(const fs::path& file, std::span<const TensorView> tensors, const Metadata& metadata) {
  std::vector<const TensorView*> sorted;
  for (const TensorView& view : tensors) {
    check_size(view);
    if (view.name == "__metadata__") throw Error(ErrorCode::invalid_argument, "a tensor cannot have this name", view.name);
    sorted.push_back(&view);
  }
  // Widest elements first: then every tensor begins at a multiple of its element's size.
  std::ranges::sort(sorted, [](const TensorView* a, const TensorView* b) {
    const std::size_t size_a = size_of(a->dtype);
    const std::size_t size_b = size_of(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView* view : sorted) {
    if (header.contains(view->name)) throw Error(ErrorCode::invalid_argument, "two tensors have this name", view->name);
    header[view->name] = {{"dtype", std::string(name(view->dtype))},
                          {"shape", view->shape},
                          {"data_offsets", {offset, offset + view->data.size()}}};
    offset += view->data.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument, "a name or metadata is not UTF-8", file.string());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i) & 0xFFU);

  TemporaryFile temporary(file);
  temporary.write(length);
  temporary.write(std::as_bytes(std::span(text)));
  for (const TensorView* view : sorted) temporary.write(view->data);
  temporary.commit();
}

}  // namespace hydrascope::checkpoint
