// The pictures of tests/corpus and what Pillow makes of them.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "model/image/decode.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace hydrascope::testing {

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
