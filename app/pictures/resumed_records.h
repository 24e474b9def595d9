// The records of a run that was stopped, for the one that goes on (`classify --resume`).
#pragma once

#include "app/pictures/inputs.h"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

namespace hydrascope::app {

/// Which inputs a file of JSON lines answers already. Records have the order of the inputs, so each input is asked about once, in order.
class ResumedRecords {
 public:
  /// The records of a last video are not counted: it begins anew. Throws Error(invalid_argument) where a line is no record,
  /// Error(unreadable) if the file cannot be read.
  explicit ResumedRecords(const std::filesystem::path& file);

  /// How much of the file is counted; what comes behind has to go.
  [[nodiscard]] std::uintmax_t bytes() const noexcept { return bytes_; }
  /// Has `input` its records? Throws Error(invalid_argument) where they are of another input.
  bool answers(const Input& input);
  [[nodiscard]] std::int64_t num_inputs() const noexcept { return num_inputs_; }
  /// How many of these records are errors.
  [[nodiscard]] std::int64_t num_failed() const noexcept { return num_failed_; }

 private:
  struct Answer {
    std::string input;  ///< as `input_key` writes it
    bool is_of_video = false;
    std::uintmax_t begin = 0;
  };
  std::string file_;
  std::deque<Answer> answers_;
  std::uintmax_t bytes_ = 0;
  std::int64_t num_inputs_ = 0;
  std::int64_t num_failed_ = 0;
};

}  // namespace hydrascope::app
