// The files of tests/data and the pictures of tests/corpus as bytes and as pictures, and what Pillow makes of them.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "model/image/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
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

inline std::filesystem::path corpus_folder() {
  return std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests" / "corpus";
}

/// One of its sound pictures.
inline std::filesystem::path good_picture(const std::string& name) {
  return corpus_folder() / "pictures" / "good" / name;
}

/// Pillow's pixels, upright, of a file that is named from the corpus' folder on.
inline image::Picture pillows_answer(const std::string& file) {
  static const auto answers =
      checkpoint::SafetensorsFile::open(corpus_folder() / "answers.safetensors");
  const checkpoint::TensorView* view = answers.find(file);
  if (view == nullptr) throw std::runtime_error("no answer for " + file);
  image::Picture picture{
      static_cast<int>(view->shape.at(1)), static_cast<int>(view->shape.at(0)), {}};
  picture.rgb.resize(view->data.size());
  std::ranges::transform(view->data, picture.rgb.begin(),
                         [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return picture;
}

}  // namespace hydrascope::testing
