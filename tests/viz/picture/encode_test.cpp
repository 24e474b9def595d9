#include "viz/picture/encode.h"

#include "model/image/decode.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/under_sanitizer.h"
#include "viz/picture/encoders.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace hydrascope::viz {
namespace {

namespace fs = std::filesystem;

/// Smooth, so that lossy formats keep it, and different in every channel.
Canvas gradient(int width, int height) {
  Canvas canvas = filled(width, height, {});
  std::size_t i = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      canvas.rgb[i++] = static_cast<std::uint8_t>(255 * x / width);
      canvas.rgb[i++] = static_cast<std::uint8_t>(255 * y / height);
      canvas.rgb[i++] = static_cast<std::uint8_t>(40 + 30 * x / width);
    }
  }
  return canvas;
}

TEST(EncodeTest, FormatsGoByExtension) {
  EXPECT_EQ(image_format("a/b.png"), ImageFormat::png);
  EXPECT_EQ(image_format("b.JPG"), ImageFormat::jpeg);
  EXPECT_EQ(image_format(".jpeg"), ImageFormat::jpeg);
  EXPECT_FALSE(find_image_format("jpg"));
  EXPECT_ERROR(image_format("b.gif"), unsupported_format, "b.gif", ".jpeg");
  EXPECT_ERROR(image_format("png"), unsupported_format, "ends in");
  EXPECT_ERROR(image_format("folder.png/file"), unsupported_format, "ends in");
  EXPECT_ERROR(image_format(""), unsupported_format, "ends in");
  EXPECT_EQ(extension(ImageFormat::jpeg), ".jpg");
}

TEST(EncodeTest, PngsAreReadBackAsTheyWere) {
  for (const auto& [width, height] : {std::pair{1, 1}, {7, 3}, {200, 131}}) {
    const Canvas canvas = gradient(width, height);
    const image::Picture picture = image::decode(encode(canvas, ImageFormat::png), {});
    EXPECT_EQ(picture.width, width);
    EXPECT_EQ(picture.height, height);
    EXPECT_EQ(picture.rgb, canvas.rgb);
  }
}

TEST(EncodeTest, JpegKeepsWhatCanBeSeen) {
  const Canvas canvas = gradient(200, 131);
  const image::Picture picture = image::decode(encode(canvas, ImageFormat::jpeg), {});
  ASSERT_EQ(picture.rgb.size(), canvas.rgb.size());
  double sum = 0;
  for (std::size_t i = 0; i < canvas.rgb.size(); ++i)
    sum += std::abs(picture.rgb[i] - canvas.rgb[i]);
  EXPECT_LT(sum / static_cast<double>(canvas.rgb.size()), 3.0);
  EXPECT_LT(encode(canvas, ImageFormat::jpeg, 20).size(),
            encode(canvas, ImageFormat::jpeg, 95).size());
}

TEST(EncodeTest, PicturesSayAtTheirEndsWhatMadeThem) {
  constexpr std::string_view kMark = "hydrascope";
  for (const auto& [format, behind] : {std::pair{ImageFormat::png, 16}, {ImageFormat::jpeg, 2}}) {
    const std::vector<std::byte> bytes = encode(gradient(20, 10), format);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_EQ(text.rfind(kMark), text.size() - kMark.size() - static_cast<std::size_t>(behind));
  }
}

TEST(EncodeTest, PicturesThatAFormatHasNoRoomForAreRefused) {
  EXPECT_ERROR(encode(Canvas{}, ImageFormat::png), unsupported_format, "PNG", "0 x 0");
  EXPECT_ERROR(encode(filled(70000, 1, {}), ImageFormat::jpeg), unsupported_format, "65500",
               "70000 x 1");
  Canvas wrong = filled(3, 3, {});
  wrong.rgb.pop_back();
  EXPECT_ERROR(encode(wrong, ImageFormat::png), internal, "3 bytes per pixel");
}

TEST(WriteImageTest, AFileIsWholeOrNotThere) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.write("picture.png", "an older one");
  write_image(file, gradient(40, 30));
  EXPECT_EQ(image::read_picture(file, {}).rgb, gradient(40, 30).rgb);
  EXPECT_THROW(write_image(file, Canvas{}), Error);
  EXPECT_EQ(image::read_picture(file, {}).width, 40) << "the older one stays";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left";
}

TEST(WriteImageTest, PlacesThatCannotBeWrittenAreNamed) {
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(write_image(folder.path() / "none" / "a.png", gradient(2, 2)), unwritable, "a.png",
               "cannot be created");
  fs::create_directory(folder.path() / "folder.png");
  EXPECT_ERROR(write_image(folder.path() / "folder.png", gradient(2, 2)), unwritable, "folder");
  fs::create_symlink("/dev/null", folder.path() / "device.png");
  EXPECT_ERROR(write_image(folder.path() / "device.png", gradient(2, 2)), unwritable, "device");
  EXPECT_ERROR(write_image(folder.path() / "a.gif", gradient(2, 2)), unsupported_format, "a.gif");
}

/// Encodes in a process that may take so much more than it has. Exits with 0, or 1 where that was
/// too little.
[[noreturn]] void encode_within(const Canvas& canvas, ImageFormat format, rlim_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
  const rlimit narrow{limit, limit};
  ::setrlimit(RLIMIT_AS, &narrow);
  try {
    _exit(encode_with_stb(canvas, format, 90).empty() ? 2 : 0);
  } catch (const std::bad_alloc&) {
    _exit(1);
  }
}

TEST(EncodeDeathTest, StbNeverWritesIntoMemoryThatIsNotThere) {
  SKIP_UNDER_SANITIZER();
  const Canvas canvas = gradient(1500, 1000);
  for (const ImageFormat format : {ImageFormat::png, ImageFormat::jpeg}) {
    for (rlim_t more = 0; more <= rlim_t{16} << 20; more += rlim_t{1} << 19) {
      EXPECT_EXIT(
          encode_within(canvas, format, more),
          [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) <= 1; }, "")
          << more;
    }
    EXPECT_EXIT(encode_within(canvas, format, rlim_t{1} << 30), ::testing::ExitedWithCode(0), "");
  }
  EXPECT_EXIT(encode_within(canvas, ImageFormat::png, 0), ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace hydrascope::viz
