#include "model/image/decoders/libtiff.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace hydrascope::image {
namespace {

using TiffTransfer = ssize_t (*)(void*, void*, ssize_t);
using TiffMessage = void (*)(const char*, const char*, std::va_list);

struct LibTiff {
  void* (*open)(const char*, const char*, void*, TiffTransfer, TiffTransfer,
                std::uint64_t (*)(void*, std::uint64_t, int), int (*)(void*),
                std::uint64_t (*)(void*), int (*)(void*, void**, std::uint64_t*),
                void (*)(void*, void*, std::uint64_t)) = nullptr;
  void (*close)(void*) = nullptr;
  int (*set_field)(void*, std::uint32_t, ...) = nullptr;
  ssize_t (*scanline_size)(void*) = nullptr;
  ssize_t (*tile_size)(void*) = nullptr;
  int (*read_scanline)(void*, void*, std::uint32_t, std::uint16_t) = nullptr;
  ssize_t (*read_tile)(void*, void*, std::uint32_t, std::uint32_t, std::uint32_t,
                       std::uint16_t) = nullptr;
  int (*read_rgba)(void*, std::uint32_t, std::uint32_t, std::uint32_t*, int, int) = nullptr;
};

/// libtiff's complaint about this thread's file.
thread_local std::string g_tiff_error;

void keep_tiff_error(const char*, const char* format, std::va_list values) {
  std::array<char, 200> text{};
  std::vsnprintf(text.data(), text.size(), format, values);
  if (g_tiff_error.empty()) g_tiff_error = text.data();
}

LibTiff load_libtiff() {
  void* library = ::dlopen("libtiff.so.6", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen("libtiff.so.5", RTLD_NOW | RTLD_LOCAL);
  LibTiff tiff;
  if (library == nullptr) return tiff;
  const auto find = [&]<class Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  };
  TiffMessage (*set_error_handler)(TiffMessage) = nullptr;
  TiffMessage (*set_warning_handler)(TiffMessage) = nullptr;
  const bool is_complete =
      find("TIFFClientOpen", tiff.open) && find("TIFFClose", tiff.close) &&
      find("TIFFSetField", tiff.set_field) && find("TIFFScanlineSize", tiff.scanline_size) &&
      find("TIFFTileSize", tiff.tile_size) && find("TIFFReadScanline", tiff.read_scanline) &&
      find("TIFFReadTile", tiff.read_tile) && find("TIFFReadRGBAImageOriented", tiff.read_rgba) &&
      find("TIFFSetErrorHandler", set_error_handler) &&
      find("TIFFSetWarningHandler", set_warning_handler);
  if (!is_complete) return {};
  set_error_handler(keep_tiff_error);
  set_warning_handler(nullptr);
  return tiff;
}

const LibTiff& libtiff() {
  static const LibTiff tiff = load_libtiff();
  if (tiff.open == nullptr)
    throw Error(ErrorCode::unsupported_format, "TIFF needs libtiff, which cannot be loaded", {},
                "install the package libtiff6, or convert the picture to PNG");
  return tiff;
}

TiffFile::Memory& memory_of(void* handle) { return *static_cast<TiffFile::Memory*>(handle); }

ssize_t read_tiff(void* handle, void* to, ssize_t size) {
  TiffFile::Memory& memory = memory_of(handle);
  const std::size_t at = std::min(memory.at, memory.bytes.size());
  const std::size_t count =
      std::min(static_cast<std::size_t>(std::max<ssize_t>(size, 0)), memory.bytes.size() - at);
  if (count > 0) std::memcpy(to, memory.bytes.data() + at, count);
  memory.at = at + count;
  return static_cast<ssize_t>(count);
}
ssize_t write_nothing(void*, void*, ssize_t) { return -1; }
std::uint64_t seek_tiff(void* handle, std::uint64_t offset, int whence) {
  TiffFile::Memory& memory = memory_of(handle);
  const std::size_t from = whence == SEEK_CUR   ? memory.at
                           : whence == SEEK_END ? memory.bytes.size()
                                                : 0;
  return memory.at = from + offset;
}
int close_nothing(void*) { return 0; }
std::uint64_t tiff_bytes(void* handle) { return memory_of(handle).bytes.size(); }
int map_tiff(void* handle, void** begin, std::uint64_t* size) {
  // libtiff only reads this memory.
  *begin = const_cast<std::byte*>(memory_of(handle).bytes.data());
  *size = memory_of(handle).bytes.size();
  return 1;
}
void unmap_nothing(void*, void*, std::uint64_t) {}

}  // namespace

TiffFile::TiffFile(std::span<const std::byte> bytes) : memory_{bytes} {
  const LibTiff& tiff = libtiff();
  g_tiff_error.clear();
  tiff_ = tiff.open("picture", "rM", &memory_, read_tiff, write_nothing, seek_tiff, close_nothing,
                    tiff_bytes, map_tiff, unmap_nothing);
  check(tiff_ != nullptr);
}

TiffFile::~TiffFile() {
  if (tiff_ != nullptr) libtiff().close(tiff_);
}

void TiffFile::set_number(std::uint32_t tag, int value) { libtiff().set_field(tiff_, tag, value); }

void TiffFile::set_numbers(std::uint32_t tag, int first, int second) {
  libtiff().set_field(tiff_, tag, first, second);
}

void TiffFile::read_row(std::uint32_t row, std::uint32_t plane, std::span<std::uint8_t> bytes) {
  check(libtiff().scanline_size(tiff_) == std::ssize(bytes));
  check(libtiff().read_scanline(tiff_, bytes.data(), row, static_cast<std::uint16_t>(plane)) == 1);
}

void TiffFile::read_tile(std::uint32_t x, std::uint32_t y, std::uint32_t plane,
                         std::span<std::uint8_t> bytes) {
  check(libtiff().tile_size(tiff_) == std::ssize(bytes));
  check(libtiff().read_tile(tiff_, bytes.data(), x, y, 0, static_cast<std::uint16_t>(plane)) ==
        std::ssize(bytes));
}

void TiffFile::read_rgba(std::uint32_t width, std::uint32_t height,
                         std::span<std::uint32_t> pixels) {
  constexpr int kTopLeft = 1;
  constexpr int kStopOnError = 1;
  check(std::uint64_t{width} * height == pixels.size());
  check(libtiff().read_rgba(tiff_, width, height, pixels.data(), kTopLeft, kStopOnError) == 1);
}

void TiffFile::check(bool holds) {
  if (holds && g_tiff_error.empty()) return;
  const std::string why = g_tiff_error.empty() ? "" : ": " + g_tiff_error;
  throw Error(ErrorCode::decode_failed, "the TIFF is damaged or truncated" + why);
}

}  // namespace hydrascope::image
