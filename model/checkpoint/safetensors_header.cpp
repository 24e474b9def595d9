#include "model/checkpoint/safetensors_header.h"

#include "kernels/error.h"
#include "model/checkpoint/strict_json.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using Kind = JsonValue::Kind;

class HeaderVisitor final : public JsonVisitor {
 public:
  explicit HeaderVisitor(const std::string& subject) : subject_(subject) {}

  SafetensorsHeader header;

  void value(std::span<const std::string> path, const JsonValue& value) override {
    switch (path.size()) {
      case 0: return expect(path, value, Kind::object, "an object");
      case 1: return begin_entry(path, value);
      case 2: return path[0] == kMetadataKey ? add_metadata(path, value) : begin_field(path, value);
      default: return add_element(path, value);
    }
  }

  void end(std::span<const std::string> path) override {
    if (path.size() == 2) {
      if (path[1] == "data_offsets") finish_offsets();
    } else if (path.size() == 1 && path[0] != kMetadataKey) {
      finish_entry();
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::decode_failed, what, subject_);
  }

  /// What messages call the value at `path`; only made for a message, as a file has many values.
  [[nodiscard]] static std::string place(std::span<const std::string> path) {
    if (path.empty()) return "the header";
    if (path[0] == kMetadataKey) {
      return std::string(kMetadataKey) + (path.size() > 1 ? " " + quote(path[1]) : "");
    }
    return "tensor " + quote(path[0]) + (path.size() > 1 ? ": " + path[1] : "");
  }
  [[nodiscard]] std::string tensor() const { return "tensor " + quote(header.entries.back().name); }

  void expect(std::span<const std::string> path, const JsonValue& value, Kind kind,
              const char* expected) const {
    if (value.kind == kind) return;
    fail(place(path) + ": expected " + expected + ", found " + describe(value));
  }

  void begin_entry(std::span<const std::string> path, const JsonValue& value) {
    expect(path, value, Kind::object, "an object");
    if (path[0] == kMetadataKey) return;
    header.entries.push_back({.name = path[0], .shape = {}});
    offsets_.clear();
    seen_ = {};
  }

  void add_metadata(std::span<const std::string> path, const JsonValue& value) {
    expect(path, value, Kind::string, "a string");
    header.metadata.emplace(path[1], value.text);
  }

  void begin_field(std::span<const std::string> path, const JsonValue& value) {
    const std::string& field = path[1];
    if (field == "dtype") {
      expect(path, value, Kind::string, "a string");
      const std::optional<Dtype> dtype = find_dtype(value.text);
      if (!dtype) fail(tensor() + ": unknown dtype " + quote(value.text));
      header.entries.back().dtype = *dtype;
      seen_.dtype = true;
    } else if (field == "shape") {
      expect(path, value, Kind::array, "an array");
      seen_.shape = true;
    } else if (field == "data_offsets") {
      expect(path, value, Kind::array, "an array");
      seen_.data_offsets = true;
    } else {
      fail(tensor() + ": unknown field " + quote(field) +
           ", expected dtype, shape and data_offsets only");
    }
  }

  void add_element(std::span<const std::string> path, const JsonValue& value) {
    expect(path, value, Kind::integer, "non-negative integers");
    if (path[1] == "data_offsets") {
      if (offsets_.size() == 2) fail(place(path) + ": expected 2 integers, found more");
      offsets_.push_back(value.integer);
      return;
    }
    std::vector<std::int64_t>& shape = header.entries.back().shape;
    if (shape.size() == kMaxRank) {
      fail(place(path) + ": more than " + std::to_string(kMaxRank) + " dimensions");
    }
    if (value.integer > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(place(path) + ": the extent " + std::to_string(value.integer) + " overflows 63 bits");
    }
    shape.push_back(static_cast<std::int64_t>(value.integer));
  }

  void finish_offsets() {
    if (offsets_.size() != 2) {
      fail(tensor() + ": data_offsets: expected 2 integers, found " +
           std::to_string(offsets_.size()));
    }
    header.entries.back().begin = offsets_[0];
    header.entries.back().end = offsets_[1];
  }

  void finish_entry() const {
    if (!seen_.dtype) fail(tensor() + ": dtype is missing");
    if (!seen_.shape) fail(tensor() + ": shape is missing");
    if (!seen_.data_offsets) fail(tensor() + ": data_offsets is missing");
  }

  struct Fields {
    bool dtype = false;
    bool shape = false;
    bool data_offsets = false;
  };

  const std::string& subject_;
  Fields seen_;  ///< of the last entry, as is
  std::vector<std::uint64_t> offsets_;
};

}  // namespace

SafetensorsHeader read_header(std::string_view text, const std::string& subject) {
  HeaderVisitor visitor(subject);
  visit_json(text, "header", subject, visitor);
  return std::move(visitor.header);
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
