// Reads integers out of hostile bytes. Bytes outside the file read as zero, which no format accepts
// as a size, an offset or a marker, so parsers need no check of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace hydrascope::image {

class ByteView {
 public:
  explicit ByteView(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.data(); }

  [[nodiscard]] std::uint32_t u8(std::size_t at) const {
    return at < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[at]) : 0;
  }
  [[nodiscard]] std::uint32_t u16_big(std::size_t at) const { return u8(at) << 8 | u8(at + 1); }
  [[nodiscard]] std::uint32_t u16_little(std::size_t at) const { return u8(at) | u8(at + 1) << 8; }
  [[nodiscard]] std::uint32_t u24_little(std::size_t at) const {
    return u16_little(at) | u8(at + 2) << 16;
  }
  [[nodiscard]] std::uint32_t u32_big(std::size_t at) const {
    return u16_big(at) << 16 | u16_big(at + 2);
  }
  [[nodiscard]] std::uint32_t u32_little(std::size_t at) const {
    return u16_little(at) | u16_little(at + 2) << 16;
  }
  [[nodiscard]] bool holds(std::size_t at, std::string_view text) const {
    return at <= size() && text.size() <= size() - at &&
           std::memcmp(data() + at, text.data(), text.size()) == 0;
  }
  /// The bytes [at, at + count), cut to what there is.
  [[nodiscard]] ByteView part(std::size_t at, std::size_t count) const {
    at = std::min(at, size());
    return ByteView(bytes_.subspan(at, std::min(count, size() - at)));
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace hydrascope::image
