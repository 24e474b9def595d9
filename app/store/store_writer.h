// Writes a store of vectors (vector_store.h) as they come. A killed run leaves its pictures so far: FILE.jsonl.part
// has a line for each picture, FILE.rows the vectors of these lines. A run goes on with them, and with a finished store.
#pragma once

#include "app/pictures/resumed_records.h"
#include "app/run/output_file.h"
#include "app/store/vector_store.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

class StoreWriter {
 public:
  /// Reads what an earlier run left, unless it begins `anew`. Throws Error(invalid_argument) for another extension and
  /// where a file may not be replaced; Error(unwritable).
  StoreWriter(const std::filesystem::path& file, bool anew);

  /// The facts of the earlier vectors, if there are any.
  [[nodiscard]] const std::optional<StoreFacts>& earlier_facts() const { return earlier_facts_; }
  /// Begins with all pictures of the store and their labels, in their order; `words` named them. Returns those that need a vector. Throws
  /// Error(invalid_argument) where the earlier vectors are of other facts or of other inputs.
  std::vector<Input> begin(StoreFacts facts, std::vector<std::pair<Input, std::string>> wanted,
                           const std::vector<std::string>& words = {});
  /// `notes_on` the earlier vectors.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// The next picture, of those that `begin` returned: `rows` * `columns` vectors (of one that is no grid, 1 and 1), one
  /// behind the other.
  void add(const Input& input, std::span<const float> vectors, std::int64_t rows = 1,
           std::int64_t columns = 1);
  void add_failure(const Input& input, const std::string& code, const std::string& message);
  /// Names the file. Throws Error(empty) without a vector, else as `write_safetensors` does.
  void finish();

  [[nodiscard]] std::int64_t num_pictures() const noexcept { return std::ssize(pictures_); }
  [[nodiscard]] std::int64_t num_failed() const noexcept { return num_failed_; }
  [[nodiscard]] std::int64_t dim() const noexcept { return dim_; }

 private:
  struct Picture {
    std::string name;
    std::string label;
    FileStamp stamp = kNoStamp;
    std::int64_t rows = 0;  ///< none: it has no vectors
    std::int64_t columns = 1;
    std::int64_t begin = 0;  ///< its first value, in the rows so far or
    bool is_stored = false;  ///< in the earlier store
  };
  void read_part();
  void read_store();
  void write(const OrderedJson& line);
  /// In the order of the pictures: `rows` where they lie so, else `sorted`.
  std::span<const float> in_order(std::span<const float> rows, std::vector<float>& sorted) const;
  void write_store(std::span<const float> vectors) const;

  std::filesystem::path file_;
  std::string rows_file_;
  bool begins_anew_;
  OutputFile lines_;
  std::ofstream rows_;
  std::int64_t num_values_ = 0;  ///< in the rows
  std::optional<VectorStore> store_;
  std::optional<StoreFacts> earlier_facts_;
  std::vector<Picture> earlier_;
  EarlierAnswers answers_;  ///< by their places in `earlier_`
  std::vector<std::string> notes_;
  StoreFacts facts_;
  std::vector<Picture> pictures_;
  std::int64_t num_failed_ = 0;
  std::int64_t dim_ = 0;
};

}  // namespace hydrascope::app
