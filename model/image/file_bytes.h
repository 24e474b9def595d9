// Reads here and there in a file whose structure says where; the bytes between are not read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>

namespace hydrascope::image {

/// A hostile file: bytes outside of it read as zero.
class FileBytes {
 public:
  explicit FileBytes(std::istream& stream) : stream_(stream) {
    stream_.clear();
    stream_.seekg(0, std::ios::end);
    const std::streamoff end = stream_.tellg();
    if (end > 0) size_ = static_cast<std::uint64_t>(end);
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  std::uint64_t u8(std::uint64_t at) {
    if (at >= size_) return 0;
    if (at < begin_ || at - begin_ >= window_.size()) load(at);
    return at - begin_ < window_.size() ? static_cast<unsigned char>(window_[at - begin_]) : 0;
  }
  /// A number of `count` bytes, at most 8.
  std::uint64_t big(std::uint64_t at, int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8U | u8(at + static_cast<std::uint64_t>(i));
    return value;
  }
  std::uint64_t little(std::uint64_t at, int count) {
    std::uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8U | u8(at + static_cast<std::uint64_t>(i));
    return value;
  }
  std::string text(std::uint64_t at, std::uint64_t count) {
    std::string text;
    for (std::uint64_t i = 0; i < count; ++i) text += static_cast<char>(u8(at + i));
    return text;
  }

 private:
  void load(std::uint64_t at) {
    constexpr std::size_t kWindow = 2048;
    begin_ = at;
    window_.resize(kWindow);
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(at));
    stream_.read(window_.data(), kWindow);
    window_.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream_.gcount(), 0)));
  }

  std::istream& stream_;
  std::uint64_t size_ = 0;
  std::uint64_t begin_ = 0;
  std::string window_;
};

}  // namespace hydrascope::image
