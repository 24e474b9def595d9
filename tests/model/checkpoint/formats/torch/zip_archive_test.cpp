#include "model/checkpoint/formats/torch/zip_archive.h"

#include "tests/error_matchers.h"
#include "tests/model/checkpoint/formats/safetensors_bytes.h"
#include "tests/model/checkpoint/formats/torch/zip_bytes.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace zip_archive_test {

using hydrascope::testing::little;
using hydrascope::testing::zip_of;
using hydrascope::testing::ZipOptions;
using hydrascope::testing::ZipPart;

const std::vector<ZipPart> kParts{{.name = "a/data.pkl", .content = "first"},
                                  {.name = "a/data/0", .content = ""},
                                  {.name = "a/data/1", .content = "second"}};

ZipArchive open(const std::string& zip) { return {bytes_of(zip), "weights.pth"}; }

std::string replace(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST(ZipArchiveTest, FindsStoredEntries) {
  for (const ZipOptions& options :
       {ZipOptions{}, ZipOptions{.zip64 = true}, ZipOptions{.descriptors = true},
        ZipOptions{.zip64 = true, .descriptors = true, .comment = "PK\x05\x06 in a comment"}}) {
    const std::string zip = zip_of(kParts, options);
    const ZipArchive archive = open(zip);
    EXPECT_EQ(archive.entries().size(), 3u);
    EXPECT_EQ(text_of(archive.content("a/data.pkl")), "first");
    EXPECT_EQ(text_of(archive.content("a/data/0")), "");
    EXPECT_EQ(text_of(archive.content("a/data/1")), "second");
    EXPECT_ERROR(archive.content("a/data/2"), decode_failed, "has no \"a/data/2\"", "weights.pth");
  }
  const std::string nothing = zip_of({});
  EXPECT_TRUE(open(nothing).entries().empty());
}

TEST(ZipArchiveTest, ContentPointsIntoTheFile) {
  const std::string zip = zip_of(kParts);
  const auto content = open(zip).content("a/data/1");
  EXPECT_EQ(reinterpret_cast<const char*>(content.data()), zip.data() + zip.find("second"));
}

TEST(ZipArchiveTest, RefusesEveryTruncation) {
  for (const ZipOptions& options : {ZipOptions{}, ZipOptions{.zip64 = true, .descriptors = true}}) {
    const std::string zip = zip_of(kParts, options);
    for (std::size_t size = 0; size < zip.size(); ++size) {
      EXPECT_ERROR(open(zip.substr(0, size)), decode_failed, "download");
    }
  }
}

TEST(ZipArchiveTest, RefusesCompressedAndEncryptedEntries) {
  const std::string zip = zip_of({{.name = "deflated", .content = "x", .method = 8},
                                  {.name = "secret", .content = "x", .flags = 1}});
  const ZipArchive archive = open(zip);
  EXPECT_ERROR(archive.content("deflated"), unsupported_format, "\"deflated\" is compressed",
               "do not repack");
  EXPECT_ERROR(archive.content("secret"), unsupported_format, "\"secret\" is encrypted");
}

TEST(ZipArchiveTest, RefusesAnEntryThatComesTwice) {
  EXPECT_ERROR(open(zip_of({{.name = "a"}, {.name = "a"}})), decode_failed, "names \"a\" twice");
}

TEST(ZipArchiveTest, RefusesADirectoryOutsideTheFile) {
  const std::string zip = zip_of({{.name = "a", .content = "x"}});
  const std::string counts = little(1, 2) + little(1, 2) + little(47, 4);
  EXPECT_ERROR(open(replace(zip, counts, little(1, 2) + little(1, 2) + little(4700, 4))),
               decode_failed, "4700 bytes lies outside the file");
  EXPECT_ERROR(open(replace(zip, counts, little(9, 2) + little(9, 2) + little(47, 4))),
               decode_failed, "9 entries do not fit");
  EXPECT_ERROR(open(replace(zip, "PK\x05\x06" + little(0, 4), "PK\x05\x06" + little(0x10001, 4))),
               decode_failed, "one part of several");
  EXPECT_ERROR(open(replace(zip, "PK\x01\x02", "PK\x01\x03")), decode_failed, "expected an entry");
  EXPECT_ERROR(open(replace(zip, counts, little(0xFFFF, 2) + little(0xFFFF, 2) + little(47, 4))),
               decode_failed, "needs a zip64 end record");
}

TEST(ZipArchiveTest, RefusesDamagedZip64) {
  const std::string zip = zip_of({{.name = "a", .content = "x"}}, {.zip64 = true});
  EXPECT_ERROR(open(replace(zip, "PK\x06\x06", "PK\x06\x05")), decode_failed,
               "points to no zip64 end record");
  const std::size_t locator = zip.rfind("PK\x06\x07");
  std::string far = zip;
  far.replace(locator + 8, 8, std::string(8, '\xFE'));
  EXPECT_ERROR(open(far), decode_failed, "zip64 end record lies outside the file");
  const std::string wide = little(1, 2) + little(24, 2);
  EXPECT_ERROR(open(replace(zip, wide, little(2, 2) + little(24, 2))), decode_failed,
               "needs a zip64 field");
  EXPECT_ERROR(open(replace(zip, wide, little(1, 2) + little(16, 2))), decode_failed,
               "zip64 field of a zip entry is cut off");
}

TEST(ZipArchiveTest, RefusesLocalHeadersThatContradict) {
  const std::string zip = zip_of({{.name = "name", .content = "x"}}, {.zip64 = true});
  const auto content = [](const std::string& bytes) { return open(bytes).content("name").size(); };
  EXPECT_ERROR(content("QK" + zip.substr(2)), decode_failed, "expected a local header");
  std::string renamed = zip;
  renamed.replace(renamed.find("name"), 4, "game");
  EXPECT_ERROR(content(renamed), decode_failed, "has another name");
  const std::string wide = little(1, 2) + little(24, 2);
  const std::string one = little(1, 8);
  EXPECT_ERROR(content(replace(zip, wide + one + one, wide + one + little(2, 8))), decode_failed,
               "two sizes, 1 and 2");
  // Into the directory: an entry must end before it.
  EXPECT_ERROR(content(replace(zip, wide + one + one, wide + little(2, 8) + little(2, 8))),
               decode_failed, "expected 2 more bytes, found 1");
  EXPECT_ERROR(content(replace(zip, one + one + little(0, 8), one + one + std::string(8, '\x7F'))),
               decode_failed, "lies outside the file");
}

}  // namespace zip_archive_test
}  // namespace hydrascope::checkpoint
