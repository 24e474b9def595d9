// Pickles and files of torch.save as strings, put together by hand. The functions return
// pieces of a pickle that leave one value on the stack.
#pragma once

#include "tests/model/checkpoint/formats/torch/zip_bytes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::testing {

inline std::string text(std::string_view value) {
  return "X" + little(value.size(), 4) + std::string(value);
}

inline std::string number(std::int64_t value) {
  return std::string("\x8a\x08") + little(static_cast<std::uint64_t>(value), 8);
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string tuple(const std::vector<std::string>& items) {
  std::string pickle = "(";
  for (const std::string& item : items) pickle += item;
  return pickle + "t";
}

inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}

inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string pickle = "}(";
  for (const auto& [key, value] : items) pickle += text(key) + value;
  return pickle + "u";
}

inline std::string storage(const std::string& type, std::string_view key, std::int64_t length) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), number(length)}) +
         "Q";
}

/// The legacy format's view of a storage.
inline std::string storage_view(const std::string& type, std::string_view key, std::int64_t length,
                                std::int64_t offset, std::int64_t view_length) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), number(length),
                tuple({text("view"), number(offset), number(view_length)})}) +
         "Q";
}

inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(number(value));
  return tuple(items);
}

inline std::string tensor(const std::string& of_storage, std::int64_t offset,
                          const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {of_storage, number(offset), numbers(shape), numbers(strides), "\x89",
               call(global("collections", "OrderedDict"), {})});
}

inline std::string pickle_of(const std::string& value) { return "\x80\x02" + value + "."; }

using Storages = std::vector<std::pair<std::string, std::string>>;

inline std::string torch_zip(const std::string& root, const Storages& storages = {},
                             const ZipOptions& options = {
                                 .zip64 = true, .descriptors = true, .comment = ""}) {
  std::vector<ZipPart> parts{{.name = "archive/data.pkl", .content = pickle_of(root)},
                             {.name = "archive/byteorder", .content = "little"}};
  for (const auto& [key, bytes] : storages) {
    parts.push_back({.name = "archive/data/" + key, .content = bytes});
  }
  return zip_of(parts, options);
}

/// `storages` as key and length in elements with the raw elements behind it.
inline std::string torch_legacy(const std::string& root, const Storages& storages = {},
                                const std::string& is_little_endian = "\x88") {
  constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  std::string keys = "](";
  std::string elements;
  for (const auto& [key, bytes] : storages) {
    keys += text(key);
    elements += bytes;
  }
  return pickle_of(std::string(kMagic)) + pickle_of(number(1001)) +
         pickle_of(
             dict({{"protocol_version", number(1001)}, {"little_endian", is_little_endian}})) +
         pickle_of(root) + pickle_of(keys + "e") + elements;
}

}  // namespace hydrascope::testing
