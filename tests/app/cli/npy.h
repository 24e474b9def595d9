// What `--save-logits` and `--save-input` wrote.
#pragma once

#include "tests/temporary_folder.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::testing {

/// Shape and values of a float32 .npy file.
struct Npy {
  std::vector<std::int64_t> shape;
  std::vector<float> values;

  explicit Npy(const std::filesystem::path& file) {
    const std::string bytes = read_bytes(file);
    const auto header_size = static_cast<std::size_t>(static_cast<unsigned char>(bytes.at(8)) |
                                                      static_cast<unsigned char>(bytes.at(9)) << 8);
    const std::string header = bytes.substr(10, header_size);
    std::string digits = header.substr(header.find("'shape': (") + 10);
    digits = digits.substr(0, digits.find(')'));
    std::istringstream stream(digits);
    for (std::string word; std::getline(stream, word, ',');) {
      if (word.find_first_of("0123456789") != std::string::npos) shape.push_back(std::stoll(word));
    }
    values.resize((bytes.size() - 10 - header_size) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + 10 + header_size, values.size() * sizeof(float));
  }
};

}  // namespace hydrascope::testing
