// The checksum of PNG's chunks and of zip's entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hydrascope::image {

/// CRC-32 of ISO 3309 (polynomial 0xEDB88320, bits reflected) of `bytes` after those of `before`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace hydrascope::image
