// NumPy's .npy, version 1.0, float32, little-endian, C order: rows are appended as they come and
// the header gets its row count when the file is closed, so memory does not grow. The file has its
// name from then on. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "kernels/new_file.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Throws Error(invalid_argument) that names `subject` unless an array of `shape` has `floats`
/// values.
void check_shape(std::span<const std::int64_t> shape, std::size_t floats,
                 const std::string& subject);
/// The header in front of the values of an array of `shape`; its length is a multiple of 64.
std::string npy_header(std::span<const std::int64_t> shape);

/// An array of shape (rows appended, ...row_shape).
class NpyWriter {
 public:
  /// Throws Error(unwritable) if writing fails, as all that write do.
  explicit NpyWriter(std::filesystem::path file);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  /// Closes as well as it can, unless an exception ends its scope; only `close` reports what went
  /// wrong.
  ~NpyWriter();
  /// `row` holds the product of `shape` floats; every row must have the first row's shape, else
  /// Error(invalid_argument) that names both.
  void append(std::span<const float> row, std::span<const std::int64_t> shape);
  /// A row of NaN. Before the first real row it is remembered and written once the shape is known.
  void append_nan();
  /// Writes the final header and names the file; rows whose shape never became known give the shape
  /// (rows, 0). Closing again does nothing.
  void close();

 private:
  [[nodiscard]] std::string header_text(std::int64_t rows) const;
  void write_nan_row();

  std::filesystem::path file_;
  NewFile out_;
  std::vector<std::int64_t> shape_;  ///< of a row, once one came
  std::int64_t row_size_ = -1;       ///< floats per row; negative until one came
  std::int64_t rows_ = 0;
  std::int64_t pending_nan_rows_ = 0;
  bool closed_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace hydrascope::app
