#include "app/pictures/resumed_records.h"

#include "app/results/json.h"
#include "app/run/usage_error.h"

#include <fstream>
#include <utility>

namespace hydrascope::app {

ResumedRecords::ResumedRecords(const std::filesystem::path& file) : file_(file.string()) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(ErrorCode::unreadable, "the records so far cannot be read", file_);
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line); bytes_ += line.size() + 1) {
    ++number;
    const OrderedJson record = OrderedJson::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("input") || !record.at("input").is_string()) {
      throw Error(ErrorCode::invalid_argument, "line " + std::to_string(number) + " is no record",
                  file_, "without `resume` the file is written anew");
    }
    Answer answer{input_key(record), record.contains("frame"), bytes_};
    num_failed_ += record.contains("error") ? 1 : 0;
    // A video has a record for each of its frames.
    const bool goes_on = answer.is_of_video && !answers_.empty() && answers_.back().is_of_video &&
                         answers_.back().input == answer.input;
    if (!goes_on) answers_.push_back(std::move(answer));
  }
  if (!answers_.empty() && answers_.back().is_of_video) {
    bytes_ = answers_.back().begin;
    answers_.pop_back();
  }
  num_inputs_ = std::ssize(answers_);
}

bool ResumedRecords::answers(const Input& input) {
  if (answers_.empty()) return false;
  if (answers_.front().input != input_key(input.given)) {
    throw UsageError("the records so far are of other inputs: " + answers_.front().input +
                         " comes where the input is " + input.given,
                     file_, "without `resume` the file is written anew");
  }
  answers_.pop_front();
  return true;
}

}  // namespace hydrascope::app
