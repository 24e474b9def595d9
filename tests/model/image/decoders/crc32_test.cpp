#include "model/image/decoders/crc32.h"

#include <gtest/gtest.h>

#include <string_view>

namespace hydrascope::image {
namespace crc32_test {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32Test, KnownValues) {
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926U) << "the check value of the CRC catalogue";
  EXPECT_EQ(crc32(bytes_of("6789"), crc32(bytes_of("12345"))), 0xCBF43926U);
}

}  // namespace crc32_test
}  // namespace hydrascope::image
