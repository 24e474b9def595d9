// Writes a store of vectors (vector_store.h) as they come. A killed run leaves its pictures so far: FILE.jsonl.part
// has a line for each picture, FILE.rows the vectors of these lines.
#pragma once

#include "app/run/output_file.h"
#include "app/store/vector_store.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

class StoreWriter {
 public:
  /// `goes_on`: behind what an earlier run left. Throws Error(invalid_argument) for another extension, and
  /// where the earlier run had other facts; Error(unwritable).
  StoreWriter(std::filesystem::path file, StoreFacts facts, bool goes_on);
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// Whether an earlier run answered that input; each is asked about once, in order, on any one thread. Throws
  /// Error(invalid_argument) where its pictures or their labels are others.
  bool has(const std::string& input, const std::string& label);
  /// How many inputs the earlier run answered, and how many of them failed.
  [[nodiscard]] std::int64_t num_earlier() const noexcept { return num_earlier_; }
  [[nodiscard]] std::int64_t num_failed() const noexcept { return num_failed_; }

  /// The next picture: `rows` * `columns` vectors (of one that is no grid, 1 and 1), one behind the other.
  void add(const std::string& input, const std::string& label, std::span<const float> vectors,
           std::int64_t rows = 1, std::int64_t columns = 1);
  /// The next input, which has failed.
  void add_failure(const std::string& input, const std::string& code, const std::string& message);
  /// Names the file. Throws Error(empty) without a vector, else as `write_safetensors` does.
  void finish();

  [[nodiscard]] std::int64_t num_pictures() const noexcept { return std::ssize(pictures_); }
  [[nodiscard]] std::int64_t dim() const noexcept { return dim_; }

 private:
  struct Picture {
    std::string name;
    std::string label;
    std::int64_t rows = 1;
    std::int64_t columns = 1;
  };
  void read_earlier();
  void write(const OrderedJson& line);
  [[nodiscard]] std::int64_t num_rows() const;
  void write_store(std::span<const std::byte> vectors) const;

  std::filesystem::path file_;
  StoreFacts facts_;
  OutputFile lines_;
  std::filesystem::path rows_file_;
  std::ofstream rows_;
  std::vector<Picture> pictures_;
  struct Earlier {
    std::string key;            ///< of the input's name
    std::string name;           ///< as it was asked about
    std::int64_t picture = -1;  ///< its place in `pictures_`, -1 of a failure
  };
  std::vector<Earlier> earlier_;  ///< of the earlier run; `has` alone changes it
  std::size_t asked_ = 0;
  std::int64_t num_earlier_ = 0;
  std::int64_t num_failed_ = 0;
  std::int64_t dim_ = 0;
};

}  // namespace hydrascope::app
