// Safetensors files as strings, put together by hand so that tests can break one rule at a time.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Eight bytes, little-endian.
inline std::string length(std::uint64_t value) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string file_of(const std::string& header, const std::string& buffer = "") {
  return length(header.size()) + header + buffer;
}

inline std::vector<std::string> names(std::span<const TensorView> tensors) {
  std::vector<std::string> result;
  for (const TensorView& tensor : tensors) result.push_back(tensor.name);
  return result;
}

/// `data` must outlive the view.
inline TensorView view(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                       std::string_view data) {
  return {std::move(name), dtype, std::move(shape), bytes_of(data)};
}

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace hydrascope::checkpoint
