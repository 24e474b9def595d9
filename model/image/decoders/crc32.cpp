#include "model/image/decoders/crc32.h"

#include <array>

namespace hydrascope::image {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  constexpr std::uint32_t kPolynomial = 0xEDB88320;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder & 1) != 0 ? (remainder >> 1) ^ kPolynomial : remainder >> 1;
    table[byte] = remainder;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

}  // namespace hydrascope::image
