#include "app/pictures/resumed_records.h"

#include "app/run/usage_error.h"
#include "kernels/new_file.h"
#include "model/checkpoint/formats/mapped_file.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

std::string recorded_name(const OrderedJson& record) {
  // Decoded as an address is, whose path begins with a slash.
  const std::string path = path_of_address("file:///" + record.value("input_bytes", ""));
  return path.size() > 1 ? path.substr(1) : record.at("input").get<std::string>();
}

FileStamp recorded_stamp(const OrderedJson& record) {
  return record.contains("file") ? record.at("file").get<FileStamp>() : kNoStamp;
}

std::optional<std::size_t> find_answer(EarlierAnswers& answers, const Input& input) {
  const auto found = answers.find(input.given);
  if (found == answers.end()) return std::nullopt;
  auto& [stamp, place, is_wanted, is_kept] = found->second;
  is_wanted = true;
  is_kept = input.stamp != kNoStamp && (stamp == kNoStamp || stamp == input.stamp);
  return is_kept ? std::optional(place) : std::nullopt;
}

namespace {

/// Whether a file that is gone lay in one of the folders.
bool lay_in_any(const fs::path& file, const std::vector<std::string>& words) {
  std::error_code ignored;
  if (!fs::is_directory(fs::absolute(file, ignored).parent_path(), ignored)) return false;
  return std::ranges::any_of(words, [&](const std::string& word) {
    const fs::path inside =
        file.lexically_normal().lexically_relative(fs::path(word).lexically_normal());
    return !inside.empty() && *inside.begin() != ".." && fs::is_directory(word, ignored);
  });
}

}  // namespace

std::vector<std::string> notes_on(const EarlierAnswers& answers,
                                  const std::vector<std::string>& words, const std::string& holder,
                                  const std::string& hint) {
  bool are_of_words = false;
  std::int64_t gone = 0;
  std::int64_t kept = 0;
  for (const auto& [name, answer] : answers) {
    kept += answer.is_kept ? 1 : 0;
    if (answer.is_wanted) continue;
    std::error_code ignored;
    const std::string addressed = path_of_address(name);
    const fs::path file = addressed.empty() ? name : addressed;
    are_of_words = are_of_words || lay_in_any(file, words);
    if (fs::exists(file, ignored) || (++gone == std::ssize(answers) && !are_of_words))
      throw UsageError("is of other inputs: " + name + " is none of these", holder, hint);
  }
  std::vector<std::string> notes;
  if (kept > 0) notes.push_back(std::to_string(kept) + " inputs are answered already");
  if (gone > 0) notes.push_back(std::to_string(gone) + " are dropped, their files are gone");
  return notes;
}

std::vector<RecordLines> read_records(const fs::path& file,
                                      const std::function<void(const OrderedJson&)>& check) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw Error(ErrorCode::unreadable, "the records so far cannot be read", file.string());
  std::vector<RecordLines> records;
  std::int64_t number = 0;
  std::uintmax_t end = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::uintmax_t begin = std::exchange(end, end + line.size() + 1);
    try {
      const OrderedJson record = OrderedJson::parse(line);
      if (check) check(record);
      RecordLines one{recorded_name(record),
                      recorded_stamp(record),
                      record.contains("frame"),
                      record.contains("error"),
                      begin,
                      end};
      // A video has a record for each of its frames.
      if (one.are_of_video && !records.empty() && records.back().input == one.input) {
        one.begin = records.back().begin;
        one.have_failed = one.have_failed || records.back().have_failed;
        records.pop_back();
      }
      records.push_back(std::move(one));
    } catch (const OrderedJson::exception&) {
      throw Error(ErrorCode::invalid_argument, "line " + std::to_string(number) + " is no record",
                  file.string(), "without `resume` the file is written anew");
    }
  }
  return records;
}

void sort_records(const fs::path& file, const std::vector<std::string>& inputs) {
  const std::vector<RecordLines> records = read_records(file);
  if (std::ranges::equal(records, inputs, {}, &RecordLines::input)) return;
  std::map<std::string, const RecordLines*> last;
  for (const RecordLines& lines : records) last[lines.input] = &lines;
  const checkpoint::MappedFile contents(file);
  NewFile sorted(file);
  for (const std::string& input : inputs)
    if (const RecordLines* lines = last[input])
      sorted.write(contents.bytes().subspan(lines->begin, lines->end - lines->begin));
  sorted.commit();
}

}  // namespace hydrascope::app
