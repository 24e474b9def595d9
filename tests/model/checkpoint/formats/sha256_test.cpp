#include "model/checkpoint/formats/sha256.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace {

std::string of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

// FIPS 180-4 and NIST's examples (csrc.nist.gov, "SHA256.pdf").
TEST(Sha256Test, EqualsThePublishedVectors) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
               "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The padding needs a block of its own from 56 bytes on. Values: Python's hashlib.
TEST(Sha256Test, EveryLengthOfTheLastBlock) {
  EXPECT_EQ(of(std::string(55, 'x')),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(of(std::string(56, 'x')),
            "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(of(std::string(63, 'x')),
            "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(of(std::string(64, 'x')),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}

TEST(Sha256Test, OfAFile) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("a", "abc")), of("abc"));
  EXPECT_EQ(sha256_of_file(folder.write("b")), of(""));
  EXPECT_ERROR(sha256_of_file(folder.path() / "c"), not_found);
}

}  // namespace
}  // namespace hydrascope::checkpoint
