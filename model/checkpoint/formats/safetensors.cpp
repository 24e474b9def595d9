#include "model/checkpoint/formats/safetensors.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/foreign_formats.h"
#include "model/checkpoint/formats/strict_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are used as they lie in the file");

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

/// In the order of the enumeration.
constexpr std::array kDtypes{
    DtypeRow{Dtype::BOOL, "BOOL", 1},
    DtypeRow{Dtype::U8, "U8", 1},
    DtypeRow{Dtype::I8, "I8", 1},
    DtypeRow{Dtype::I16, "I16", 2},
    DtypeRow{Dtype::U16, "U16", 2},
    DtypeRow{Dtype::F16, "F16", 2},
    DtypeRow{Dtype::BF16, "BF16", 2},
    DtypeRow{Dtype::I32, "I32", 4},
    DtypeRow{Dtype::U32, "U32", 4},
    DtypeRow{Dtype::F32, "F32", 4},
    DtypeRow{Dtype::I64, "I64", 8},
    DtypeRow{Dtype::U64, "U64", 8},
    DtypeRow{Dtype::F64, "F64", 8},
    DtypeRow{Dtype::F8_E4M3, "F8_E4M3", 1},
    DtypeRow{Dtype::F8_E5M2, "F8_E5M2", 1},
    DtypeRow{Dtype::F8_E8M0, "F8_E8M0", 1},
    DtypeRow{Dtype::C64, "C64", 8},
    DtypeRow{Dtype::F8_E4M3FNUZ, "F8_E4M3FNUZ", 1},
    DtypeRow{Dtype::F8_E5M2FNUZ, "F8_E5M2FNUZ", 1},
};

const DtypeRow& row_of(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)); }

constexpr std::size_t kLengthBytes = 8;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The header's length; `bytes` holds at least kLengthBytes.
std::uint64_t read_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return length;
}

[[noreturn]] void fail(const std::string& what, const std::string& subject, std::string hint = {}) {
  throw Error(ErrorCode::decode_failed, what, subject, std::move(hint));
}

constexpr const char* kDownloadAgain = "the file was cut off or damaged: download or copy it again";

std::string_view header_text(std::span<const std::byte> bytes, const std::string& subject) {
  if (bytes.size() < kLengthBytes) {
    fail("expected at least 8 bytes, which say the header's length, found " +
             std::to_string(bytes.size()),
         subject, kDownloadAgain);
  }
  const std::uint64_t length = read_length(bytes);
  const std::size_t available = bytes.size() - kLengthBytes;
  if (length > std::min<std::uint64_t>(kMaxHeaderBytes, available)) {
    // The bytes are no length, but the beginning of something else.
    if (available > 0 && bytes[kLengthBytes] != std::byte{'{'})
      refuse_format(sniff_format(bytes), bytes, "a safetensors file", subject);
    if (length > kMaxHeaderBytes) {
      fail("the header's length is damaged: it says " + std::to_string(length) +
               " bytes, more than the format's limit of " + std::to_string(kMaxHeaderBytes),
           subject, kDownloadAgain);
    }
    fail("the file was cut off: its header takes " + std::to_string(length) +
             " bytes, the file has " + std::to_string(available) + " after the header's length",
         subject, kDownloadAgain);
  }
  const std::string_view text = text_of(bytes.subspan(kLengthBytes, length));
  if (!text.starts_with('{')) {
    fail("the header begins with " + (text.empty() ? "nothing" : quote(text.substr(0, 1))) +
             ", expected '{'",
         subject);
  }
  return text;
}

using HeaderJson = nlohmann::json;

/// Fails unless `fits`, naming what `value` is.
void expect(bool fits, const std::string& place, const char* expected, const HeaderJson& value,
            const std::string& subject) {
  if (!fits) {
    fail(place + ": expected " + expected + ", found " + describe(value), subject);
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
      fail(place_ + ": unknown field " + quote(field) +
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
    if (!dtype) fail(place_ + ": unknown dtype " + quote(text), subject_);
    return *dtype;
  }

  [[nodiscard]] std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> shape;
    for (const std::uint64_t extent : integers("shape")) {
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail(place_ + ": shape: the extent " + std::to_string(extent) + " overflows 63 bits",
             subject_);
      }
      shape.push_back(static_cast<std::int64_t>(extent));
    }
    if (shape.size() > kMaxRank) {
      fail(place_ + ": shape: more than " + std::to_string(kMaxRank) + " dimensions", subject_);
    }
    return shape;
  }

  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> data_offsets() const {
    const std::vector<std::uint64_t> offsets = integers("data_offsets");
    if (offsets.size() != 2) {
      fail(place_ + ": data_offsets: expected 2 integers, found " +
               (offsets.size() > 2 ? "more" : std::to_string(offsets.size())),
           subject_);
    }
    return {offsets[0], offsets[1]};
  }

 private:
  [[nodiscard]] const HeaderJson& member(const char* field) const {
    const auto found = members_.find(field);
    if (found == members_.end()) fail(place_ + ": " + field + " is missing", subject_);
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

/// One tensor's entry. The buffer holds it at [begin, end), if the file is right.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<TensorEntry> entries;  ///< in the order of their names
};

/// Checks the grammar {"__metadata__": {string: string}, name: {"dtype": string, "shape":
/// [integer], "data_offsets": [begin, end]}}. Throws Error(decode_failed) that names tensor and
/// field.
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

/// The tensors must tile the buffer: `previous_end` is where the one before `entry` ended.
void check_place(const TensorEntry& entry, std::uint64_t previous_end, std::size_t buffer_size,
                 const std::string& subject) {
  const auto refuse = [&](const std::string& what, std::string hint = {}) {
    fail("tensor " + quote(entry.name) + ": " + what, subject, std::move(hint));
  };
  const auto offsets = [&] {
    return "data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
  };
  const auto type = [&] {
    return shape_text(entry.shape) + " of " + std::string(name(entry.dtype));
  };

  if (entry.end < entry.begin) refuse(offsets() + " end before they begin");
  const std::uint64_t length = entry.end - entry.begin;
  const std::optional<std::uint64_t> size = byte_size(entry.shape, entry.dtype);
  if (!size) refuse("the size of " + type() + " overflows");
  if (*size != length) {
    refuse(type() + " takes " + std::to_string(*size) + " bytes, " + offsets() + " hold " +
           std::to_string(length));
  }
  const auto expected = [&] { return ": expected to begin at " + std::to_string(previous_end); };
  if (entry.begin > previous_end) refuse(offsets() + " leave a hole" + expected());
  if (entry.begin < previous_end) refuse(offsets() + " overlap the tensor before" + expected());
  if (entry.end > buffer_size) {
    refuse(offsets() + " end outside the file, which was cut off: the buffer has " +
               std::to_string(buffer_size) + " bytes",
           kDownloadAgain);
  }
}

}  // namespace

std::string_view name(Dtype dtype) { return row_of(dtype).name; }
std::size_t size_of(Dtype dtype) { return row_of(dtype).size; }

std::optional<Dtype> find_dtype(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeRow::name);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->dtype);
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

bool is_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'} &&
         read_length(bytes) <= kMaxHeaderBytes;
}

SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& subject) {
  if (const std::string_view format = sniff_format(bytes);
      format != "safetensors" && format != "unknown" && format != "text" && format != "zeros") {
    refuse_format(format, bytes, "a safetensors file", subject);
  }
  const std::string_view text = header_text(bytes, subject);
  SafetensorsHeader header = read_header(text, subject);
  // JSON would allow line ends, too; the format pads with spaces only.
  if (text[text.find_last_not_of(' ')] != '}') {
    fail("the header ends with " + quote(text.substr(text.find_last_of('}') + 1)) +
             ", expected '}' and then spaces only",
         subject);
  }
  std::ranges::stable_sort(header.entries, {}, [](const TensorEntry& entry) {
    return std::tuple(entry.begin, entry.end);  // an empty tensor before the one it touches
  });

  const std::span<const std::byte> buffer = bytes.subspan(kLengthBytes + text.size());
  SafetensorsIndex index{.metadata = std::move(header.metadata), .tensors = {}};
  index.tensors.reserve(header.entries.size());
  std::uint64_t previous_end = 0;
  for (TensorEntry& entry : header.entries) {
    check_place(entry, previous_end, buffer.size(), subject);
    previous_end = entry.end;
    index.tensors.push_back({.name = std::move(entry.name),
                             .dtype = entry.dtype,
                             .shape = std::move(entry.shape),
                             .data = buffer.subspan(entry.begin, entry.end - entry.begin)});
  }
  if (previous_end != buffer.size()) {
    fail(std::to_string(buffer.size() - previous_end) +
             " bytes after the last tensor, which ends at " + std::to_string(previous_end) +
             " of " + std::to_string(buffer.size()),
         subject);
  }
  return index;
}

}  // namespace hydrascope::checkpoint
