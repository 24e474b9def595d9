#include "model/image/decoders/webp_still.h"

#include "kernels/error.h"
#include "model/image/decoders/byte_view.h"

#include <cstdint>
#include <string_view>

namespace hydrascope::image {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::size_t kFirstChunk = 12;    // behind "RIFF", the size and "WEBP"
constexpr std::size_t kExtendedSize = 30;  // up to the end of the VP8X chunk
constexpr std::size_t kFrameHeader = 16;   // position, size, duration and flags in an ANMF chunk

void put_u32_little(std::vector<std::byte>& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
  }
}

/// `frame` is the payload of an ANMF chunk: header, optional ALPH chunk, VP8 or VP8L chunk.
std::vector<std::byte> wrap(ByteView file, ByteView frame) {
  constexpr std::uint32_t kAlphaFlag = 0x10;
  const ByteView chunks = frame.part(kFrameHeader, frame.size());
  std::vector<std::byte> still(file.data(), file.data() + kExtendedSize);
  put_u32_little(still, kFirstChunk + 8, file.u8(kFirstChunk + 8) & kAlphaFlag);
  still.insert(still.end(), chunks.data(), chunks.data() + chunks.size());
  put_u32_little(still, 4, static_cast<std::uint32_t>(still.size() - 8));
  return still;
}

}  // namespace

std::optional<std::vector<std::byte>> extract_first_webp_frame(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kAnimationFlag = 0x02;
  const ByteView file(bytes);
  if (!file.holds(kFirstChunk, "VP8X") || (file.u8(kFirstChunk + 8) & kAnimationFlag) == 0) {
    return std::nullopt;
  }
  for (std::size_t at = kFirstChunk; at + 8 <= file.size();) {
    const std::size_t length = file.u32_little(at + 4);
    if (!file.holds(at, "ANMF")) {
      at += 8 + length + length % 2;
      continue;
    }
    const ByteView frame = file.part(at + 8, length);
    if (frame.size() < length || length <= kFrameHeader) break;
    const bool covers_canvas = frame.holds(0, "\0\0\0\0\0\0"sv) &&
                               frame.u24_little(6) == file.u24_little(kFirstChunk + 12) &&
                               frame.u24_little(9) == file.u24_little(kFirstChunk + 15);
    if (!covers_canvas) {
      throw Error(ErrorCode::unsupported_format,
                  "the first picture of this animated WebP covers only a part of its canvas");
    }
    return wrap(file, frame);
  }
  throw Error(ErrorCode::decode_failed, "the file is truncated: its first picture is missing");
}

}  // namespace hydrascope::image
