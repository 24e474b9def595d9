// The files of tests/data as bytes and as pictures.
#pragma once

#include "model/image/decode.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace hydrascope::testing {

inline std::filesystem::path data_folder(std::string_view name) {
  return std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests" / "data" / name;
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream) << file;
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A "P6 W H 255" file as Pillow writes it, read without the code under test.
inline image::Picture read_ppm(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  std::istringstream header(text);
  std::string magic;
  int max_value = 0;
  image::Picture picture;
  header >> magic >> picture.width >> picture.height >> max_value;
  EXPECT_EQ(magic, "P6") << file;
  EXPECT_EQ(max_value, 255) << file;
  const std::size_t begin = static_cast<std::size_t>(header.tellg()) + 1;
  picture.rgb.assign(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end());
  return picture;
}

}  // namespace hydrascope::testing
