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

namespace hydrascope::app {

namespace {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

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

/// Readers take the keys in any order, and by this one `may_be_replaced` knows the program's own arrays.
std::string dictionary(const std::string& shape) {
  return "{'fortran_order': False, 'descr': '<f4', 'shape': " + shape + ", }";
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

/// The number of floats of a row, which must be as many as were handed over.
std::int64_t checked_size(std::span<const std::int64_t> shape, std::size_t floats,
                          const std::string& subject, const char* what) {
  std::int64_t size = shape.size() <= kMaxDimensions ? 1 : -1;
  for (const std::int64_t extent : shape)
    if (size < 0 || extent < 0 || __builtin_mul_overflow(size, extent, &size)) size = -1;
  if (size < 0 || std::cmp_not_equal(size, floats))
    throw UsageError(what + (" of shape " + row_shape_text(shape)) + " with " +
                         std::to_string(floats) + " values",
                     subject);
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

}  // namespace hydrascope::app
