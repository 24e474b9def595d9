// Reads hostile bytes from front to back and never beyond their end.
#pragma once

#include "kernels/error.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::checkpoint {

/// A position in `bytes`. Errors are Error(decode_failed), call the bytes `what` ("the pickle") and
/// have the subject `subject`.
class ByteCursor {
 public:
  ByteCursor(std::span<const std::byte> bytes, std::string what, std::string subject)
      : bytes_(bytes), what_(std::move(what)), subject_(std::move(subject)) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > remaining()) {
      fail("expected " + std::to_string(count) + " more bytes, found " +
           std::to_string(remaining()));
    }
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }

  std::string_view text(std::uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  /// The text up to the next line feed, which is consumed and not part of the result.
  std::string_view line() {
    const auto rest = bytes_.subspan(position_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    if (end == rest.end()) fail("expected a line feed");
    const std::string_view found = text(static_cast<std::uint64_t>(end - rest.begin()));
    ++position_;
    return found;
  }

  /// A little-endian number.
  template <std::unsigned_integral T>
  T number() {
    std::uint64_t value = 0;
    const auto taken = take(sizeof(T));
    for (std::size_t i = sizeof(T); i-- > 0;) {
      value = value << 8 | std::to_integer<std::uint64_t>(taken[i]);
    }
    return static_cast<T>(value);
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(
        ErrorCode::decode_failed,
        what_ + " is cut off or damaged at byte " + std::to_string(position_) + ": " + problem,
        subject_, "download or copy the file again");
  }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
  std::string subject_;
  std::size_t position_ = 0;
};

}  // namespace hydrascope::checkpoint
