// The answers of an earlier run, for the one that goes on (`classify --resume`, `embed`).
#pragma once

#include "app/pictures/inputs.h"
#include "app/results/json.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The path that `add_path` wrote as "input", and the record's "file". Throw OrderedJson::exception for what is no record.
std::string recorded_name(const OrderedJson& record);
FileStamp recorded_stamp(const OrderedJson& record);

/// An answer stays while its input's file is as it was (version 0.1 kept no stamps), and goes when the file is gone.
struct EarlierAnswer {
  FileStamp stamp;
  std::size_t place;  ///< the caller's own number of it
  bool is_wanted = false;
  bool is_kept = false;
};
using EarlierAnswers = std::map<std::string, EarlierAnswer>;  ///< by their inputs' names
/// The place of the answer that `input` has and keeps.
std::optional<std::size_t> find_answer(EarlierAnswers& answers, const Input& input);
/// Once all inputs were looked for: notes on the answers that stay and go. Throws Error(invalid_argument) where `holder` is of
/// other inputs: one's file is there and is none of them, or no input has an answer and none was of a file in one of the
/// folders among `words`, whose pictures may have new names.
std::vector<std::string> notes_on(const EarlierAnswers& answers,
                                  const std::vector<std::string>& words, const std::string& holder,
                                  const std::string& hint);

/// The lines of an input in a file of JSON lines.
struct RecordLines {
  std::string input;
  FileStamp stamp;
  bool are_of_video;
  bool have_failed;
  std::uintmax_t begin;
  std::uintmax_t end;
};
/// Throws Error(invalid_argument) where a line is no record, Error(unreadable) if the file cannot be read. `check` is called
/// for each record.
std::vector<RecordLines> read_records(const std::filesystem::path& file,
                                      const std::function<void(const OrderedJson&)>& check = {});
/// Leaves the last lines of each input, in this order.
void sort_records(const std::filesystem::path& file, const std::vector<std::string>& inputs);

}  // namespace hydrascope::app
