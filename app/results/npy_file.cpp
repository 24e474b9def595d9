#include "app/results/npy_file.h"

#include "app/run/usage_error.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <zlib.h>

namespace hydrascope::app {

namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

constexpr std::int64_t kMaxRowSize =
    std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(float));
constexpr std::size_t kMaxDimensions = 31;  // NumPy 1.x: 32, one of which counts the rows

/// "(10, 3, 224, 224)", "(10,)".
std::string shape_text(std::string first, std::span<const std::int64_t> rest) {
  std::string text = "(" + std::move(first);
  for (const std::int64_t size : rest) text += ", " + std::to_string(size);
  return text + (rest.empty() ? ",)" : ")");
}

std::string row_shape_text(std::span<const std::int64_t> shape) {
  if (shape.empty()) return "()";
  return shape_text(std::to_string(shape.front()), shape.subspan(1));
}

std::string dictionary(const std::string& shape) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
}

/// `room` characters, or what the dictionary needs, and what aligns the values after it.
std::string header(std::string dictionary, std::size_t room) {
  constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
  constexpr std::size_t kLengthBytes = 2;
  constexpr std::size_t kAlignment = 64;
  const std::size_t prefix = kMagic.size() + kLengthBytes;
  const std::size_t needed = prefix + std::max(room, dictionary.size()) + 1;
  const std::size_t total = (needed + kAlignment - 1) / kAlignment * kAlignment;
  dictionary.resize(total - prefix - 1, ' ');
  dictionary += '\n';
  std::string bytes(kMagic);
  bytes += static_cast<char>(dictionary.size() & 0xFF);
  bytes += static_cast<char>(dictionary.size() >> 8);
  return bytes + dictionary;
}

/// Number of floats of a row, checked against overflow and against what was handed over.
std::int64_t checked_size(std::span<const std::int64_t> shape, std::size_t floats,
                          const std::string& subject, const char* what) {
  std::int64_t size = shape.size() <= kMaxDimensions ? 1 : -1;
  for (const std::int64_t extent : shape) {
    if (size < 0 || extent < 0 || (extent > 0 && size > kMaxRowSize / extent)) {
      size = -1;
      break;
    }
    size *= extent;
  }
  if (size < 0 || static_cast<std::uint64_t>(size) != floats) {
    throw UsageError(what + (" of shape " + row_shape_text(shape)) + " with " +
                         std::to_string(floats) + " values",
                     subject);
  }
  return size;
}

}  // namespace

void check_shape(std::span<const std::int64_t> shape, std::size_t floats,
                 const std::string& subject) {
  checked_size(shape, floats, subject, "an array");
}

std::string npy_header(std::span<const std::int64_t> shape) {
  return header(dictionary(row_shape_text(shape)), 0);
}

NpyWriter::NpyWriter(std::filesystem::path file) : file_(std::move(file)), out_(file_) {}

NpyWriter::~NpyWriter() {
  // A file that an error ended is not whole.
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    close();
  } catch (const Error&) {
    // A caller who must know of a failure has called close().
  }
}

void NpyWriter::append(std::span<const float> row, std::span<const std::int64_t> shape) {
  if (closed_) throw Error(ErrorCode::internal, "a row for a closed file", file_.native());
  const std::int64_t size = checked_size(shape, row.size(), file_.native(), "a row");
  if (row_size_ < 0) {
    shape_.assign(shape.begin(), shape.end());
    row_size_ = size;
    const std::string header_of_none = header_text(0);
    out_.write(std::as_bytes(std::span(header_of_none)));
    for (; pending_nan_rows_ > 0; --pending_nan_rows_) write_nan_row();
  } else if (!std::equal(shape.begin(), shape.end(), shape_.begin(), shape_.end())) {
    throw UsageError("row " + std::to_string(rows_) + " has the shape " + row_shape_text(shape) +
                         ", the rows before it " + row_shape_text(shape_),
                     file_.native(),
                     "one array holds inputs of one size: give `views` whole and `img_size`");
  }
  out_.write(std::as_bytes(row));
  ++rows_;
}

void NpyWriter::append_nan() {
  if (closed_) throw Error(ErrorCode::internal, "a row for a closed file", file_.native());
  if (row_size_ < 0) {
    ++pending_nan_rows_;
  } else {
    write_nan_row();
  }
}

void NpyWriter::write_nan_row() {
  std::array<float, 1024> nans;
  nans.fill(std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t left = row_size_; left > 0;) {
    const std::int64_t count = std::min(left, static_cast<std::int64_t>(nans.size()));
    out_.write(std::as_bytes(std::span(nans).first(static_cast<std::size_t>(count))));
    left -= count;
  }
  ++rows_;
}

std::string NpyWriter::header_text(std::int64_t rows) const {
  // The header keeps its length while the row count grows, so that it can be written again.
  const std::string longest = std::to_string(std::numeric_limits<std::int64_t>::max());
  const std::size_t room = dictionary(shape_text(longest, shape_)).size();
  return header(dictionary(shape_text(std::to_string(rows), shape_)), room);
}

void NpyWriter::close() {
  if (std::exchange(closed_, true)) return;
  if (row_size_ < 0) {
    shape_ = {0};
    rows_ = pending_nan_rows_;
  }
  // Without a row there is nothing to write over: the header is the file.
  const std::string text = header_text(rows_);
  out_.overwrite(0, std::as_bytes(std::span(text)));
  out_.commit();
}

namespace {

constexpr std::uint16_t kZipVersion = 20;         // of the format: 2.0
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;  // general purpose bit 11
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kMidnight = 0;
constexpr std::uint16_t kFirstOfJanuary1980 = (1 << 5) | 1;

/// Little-endian fields, one after the other.
class Fields {
 public:
  Fields& u16(std::uint16_t value) { return bytes(value, 2); }
  Fields& u32(std::uint32_t value) { return bytes(value, 4); }
  Fields& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& str() const noexcept { return text_; }

 private:
  Fields& bytes(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) text_ += static_cast<char>((value >> (8 * i)) & 0xFF);
    return *this;
  }
  std::string text_;
};

/// The fields that an entry's own header and the directory share.
void add_description(Fields& fields, std::uint32_t crc, std::uint32_t size,
                     const std::string& name) {
  fields.u16(kZipVersion).u16(kNamesAreUtf8).u16(kStored).u16(kMidnight).u16(kFirstOfJanuary1980);
  fields.u32(crc).u32(size).u32(size);
  fields.u16(static_cast<std::uint16_t>(name.size())).u16(0);
}

}  // namespace

NpzWriter::NpzWriter(const std::filesystem::path& file) : name_(file.native()), file_(file) {}

void NpzWriter::add(const std::string& name, std::span<const float> values,
                    std::span<const std::int64_t> shape) {
  const std::string subject = name_ + ": " + name;
  check_shape(shape, values.size(), subject);
  if (!names_.insert(name).second)
    throw UsageError("the archive has an array of that name", subject);
  const std::string header = npy_header(shape);
  const std::uint64_t size = header.size() + values.size_bytes();
  const std::string entry_name = name + ".npy";
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t kDirectoryRoom = std::uint64_t{1} << 26;
  if (written_ + size + kDirectoryRoom > kLargest ||
      entries_.size() == std::numeric_limits<std::uint16_t>::max() ||
      entry_name.size() > std::numeric_limits<std::uint16_t>::max())
    throw Error(ErrorCode::too_large, "more than a zip archive of 32 bits holds", subject);

  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
  const Entry entry{entry_name, static_cast<std::uint32_t>(crc), static_cast<std::uint32_t>(size),
                    static_cast<std::uint32_t>(written_)};
  Fields local;
  local.u32(0x04034B50);
  add_description(local, entry.crc, entry.size, entry.name);
  local.text(entry.name);
  write(std::as_bytes(std::span(local.str())));
  write(std::as_bytes(std::span(header)));
  write(std::as_bytes(values));
  entries_.push_back(entry);
}

void NpzWriter::close() {
  const auto offset = static_cast<std::uint32_t>(written_);
  for (const Entry& entry : entries_) {
    Fields directory;
    directory.u32(0x02014B50).u16(kZipVersion);
    add_description(directory, entry.crc, entry.size, entry.name);
    // No comment, first disk, binary, no attributes.
    directory.u16(0).u16(0).u16(0).u32(0).u32(entry.offset).text(entry.name);
    write(std::as_bytes(std::span(directory.str())));
  }
  const auto size = static_cast<std::uint32_t>(written_ - offset);
  const auto count = static_cast<std::uint16_t>(entries_.size());
  Fields end;
  end.u32(0x06054B50).u16(0).u16(0).u16(count).u16(count).u32(size).u32(offset).u16(0);
  write(std::as_bytes(std::span(end.str())));
  file_.commit();
}

void NpzWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  written_ += bytes.size();
}

}  // namespace hydrascope::app
