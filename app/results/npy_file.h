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
#include <set>
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

// NumPy's .npz: a zip archive of .npy entries, float32, not compressed, so that numpy.load can map
// them. Format:
// https://numpy.org/doc/stable/reference/generated/numpy.savez.html, PKWARE's APPNOTE.TXT 6.3.9,
// sections 4.3.7, 4.3.12 and 4.3.16.

/// Arrays by name. The same arrays give the same bytes: entries carry no time. The file has its
/// name from `close` on; without it nothing is left.
class NpzWriter {
 public:
  /// Throws Error(unwritable) if writing fails, as all that write do.
  explicit NpzWriter(const std::filesystem::path& file);
  /// `values` holds the product of `shape` floats, else Error(invalid_argument), as for a name that
  /// came before; Error(too_large) where the archive would pass 4 GiB or 65535 arrays.
  void add(const std::string& name, std::span<const float> values,
           std::span<const std::int64_t> shape);
  /// Writes the directory and names the file.
  void close();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0;
    std::uint32_t size = 0;
    std::uint32_t offset = 0;
  };
  void write(std::span<const std::byte> bytes);

  std::string name_;
  NewFile file_;
  std::set<std::string> names_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
};

}  // namespace hydrascope::app
