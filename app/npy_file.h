// NumPy's .npy, version 1.0, float32, little-endian, C order: rows are appended as they come and the
// header gets its row count when the file is closed, so memory does not grow. Free of LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace hydrascope::app {

/// An array of shape (rows appended, ...row_shape).
class NpyWriter {
 public:
  explicit NpyWriter(std::filesystem::path file);
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();
  /// `row` holds the product of `shape` floats; every row must have the first row's shape, else
  /// Error(invalid_argument) that names both.
  void append(std::span<const float> row, std::span<const std::int64_t> shape);
  /// A row of NaN. Before the first real row it is remembered and written once the shape is known.
  void append_nan();
  /// Writes the final header. Throws Error(unreadable) when the disk says no.
  void close();

 private:
  void write_header(std::int64_t rows);
  void write_nan_row();
  std::filesystem::path file_;
  std::ofstream out_;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 0;
  std::int64_t pending_nan_rows_ = 0;
  bool closed_ = false;
};

}  // namespace hydrascope::app
