// The kind of a file by its name.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

namespace hydrascope::app {

/// In small letters, with the dot: ".jpg" of "A.JPG", "" of a name without one.
inline std::string lower_extension(const std::filesystem::path& file) {
  std::string extension = file.extension().native();
  std::ranges::transform(extension, extension.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return extension;
}

}  // namespace hydrascope::app
