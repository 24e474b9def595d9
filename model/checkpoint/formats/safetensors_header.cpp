#include "model/checkpoint/formats/safetensors_header.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/strict_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using HeaderJson = nlohmann::json;

[[noreturn]] void fail_header(const std::string& what, const std::string& subject) {
  throw Error(ErrorCode::decode_failed, what, subject);
}

/// Fails unless `fits`, naming what `value` is.
void expect(bool fits, const std::string& place, const char* expected, const HeaderJson& value,
            const std::string& subject) {
  if (!fits) {
    fail_header(place + ": expected " + expected + ", found " + describe(value), subject);
  }
}

/// The members of one tensor's object, with their types checked.
class EntryReader {
 public:
  EntryReader(const std::string& name, const HeaderJson& members, const std::string& subject)
      : place_("tensor " + quote(name)), members_(members), subject_(subject) {
    expect(members.is_object(), place_, "an object", members, subject);
    for (const auto& [field, value] : members.items()) {
      if (field == "dtype" || field == "shape" || field == "data_offsets") continue;
      fail_header(place_ + ": unknown field " + quote(field) +
                      ", expected dtype, shape and data_offsets only",
                  subject);
    }
  }

  [[nodiscard]] Dtype dtype() const {
    const HeaderJson& value = member("dtype");
    expect(value.is_string(), place_ + ": dtype", "a string", value, subject_);
    const auto& text = value.get_ref<const std::string&>();
    const std::optional<Dtype> dtype = find_dtype(text);
    if (!dtype && (text.starts_with("F4") || text.starts_with("F6_"))) {
      throw Error(ErrorCode::unsupported_format,
                  place_ + ": its dtype " + quote(text) +
                      " has less than a byte for a number and is not read",
                  subject_, "save the weights as F32, F16 or BF16");
    }
    if (!dtype) fail_header(place_ + ": unknown dtype " + quote(text), subject_);
    return *dtype;
  }

  [[nodiscard]] std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> shape;
    for (const std::uint64_t extent : integers("shape")) {
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail_header(place_ + ": shape: the extent " + std::to_string(extent) + " overflows 63 bits",
                    subject_);
      }
      shape.push_back(static_cast<std::int64_t>(extent));
    }
    if (shape.size() > kMaxRank) {
      fail_header(place_ + ": shape: more than " + std::to_string(kMaxRank) + " dimensions",
                  subject_);
    }
    return shape;
  }

  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> data_offsets() const {
    const std::vector<std::uint64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) {
      fail_header(place_ + ": data_offsets: expected 2 integers, found " +
                      (offsets.size() > 2 ? "more" : std::to_string(offsets.size())),
                  subject_);
    }
    return {offsets[0], offsets[1]};
  }

 private:
  [[nodiscard]] const HeaderJson& member(const char* field) const {
    const auto found = members_.find(field);
    if (found == members_.end()) fail_header(place_ + ": " + field + " is missing", subject_);
    return *found;
  }

  [[nodiscard]] std::vector<std::uint64_t> integers(const char* field) const {
    const HeaderJson& list = member(field);
    const std::string place = place_ + ": " + field;
    expect(list.is_array(), place, "an array", list, subject_);
    for (const HeaderJson& item : list) {
      expect(item.is_number_unsigned(), place, "non-negative integers", item, subject_);
    }
    return list.get<std::vector<std::uint64_t>>();
  }

  std::string place_;
  const HeaderJson& members_;
  const std::string& subject_;
};

}  // namespace

SafetensorsHeader read_header(std::string_view text, const std::string& subject) {
  const HeaderJson json = parse_json(text, "header", subject);
  expect(json.is_object(), "the header", "an object", json, subject);
  SafetensorsHeader header;
  for (const auto& [name, members] : json.items()) {
    if (name != kMetadataKey) {
      const EntryReader entry(name, members, subject);
      const Dtype dtype = entry.dtype();
      std::vector<std::int64_t> shape = entry.shape();
      const auto [begin, end] = entry.data_offsets();
      header.entries.push_back({name, dtype, std::move(shape), begin, end});
      continue;
    }
    expect(members.is_object(), name, "an object", members, subject);
    for (const auto& [key, value] : members.items()) {
      expect(value.is_string(), name + " " + quote(key), "a string", value, subject);
      header.metadata.emplace(key, value.get<std::string>());
    }
  }
  return header;
}

std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape, Dtype dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    is_empty = is_empty || extent == 0;
    const std::int64_t factor = std::max<std::int64_t>(extent, 1);
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return is_empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + ")";
}

}  // namespace hydrascope::checkpoint
