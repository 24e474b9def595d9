// libtiff, loaded when a TIFF needs it: its header is in a package of its own, and the called
// functions have not changed since 2011 (version 4.0).
#pragma once

#include <cstdint>
#include <span>
#include <sys/types.h>

namespace hydrascope::image {

/// One TIFF in memory, its first directory. Damage is an error: `Error(decode_failed)`.
class TiffFile {
 public:
  /// The bytes that libtiff reads, and its place in them.
  struct Memory {
    std::span<const std::byte> bytes;
    std::size_t at = 0;
  };
  /// `bytes` outlive it. Throws `Error(unsupported_format)` if libtiff cannot be loaded.
  explicit TiffFile(std::span<const std::byte> bytes);
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;
  ~TiffFile();

  void set_number(std::uint32_t tag, int value);
  void set_numbers(std::uint32_t tag, int first, int second);
  /// A row of a file in strips, rows one after the other; `bytes` is its size.
  void read_row(std::uint32_t row, std::uint32_t plane, std::span<std::uint8_t> bytes);
  /// The tile that holds a pixel; `bytes` is its size.
  void read_tile(std::uint32_t x, std::uint32_t y, std::uint32_t plane,
                 std::span<std::uint8_t> bytes);
  /// The whole picture, red in the low byte, the upper left corner first.
  void read_rgba(std::uint32_t width, std::uint32_t height, std::span<std::uint32_t> pixels);

 private:
  void check(bool holds);
  void* tiff_ = nullptr;
  Memory memory_;
};

}  // namespace hydrascope::image
