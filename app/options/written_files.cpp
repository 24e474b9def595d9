#include "app/options/written_files.h"

#include "app/options/requests.h"
#include "app/pictures/inputs.h"
#include "app/run/assets.h"
#include "app/run/output_file.h"
#include "app/run/usage_error.h"
#include "kernels/file_place.h"

#include <system_error>
#include <vector>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

/// Behind links of folders, also of a file that is not there yet.
fs::path place_of(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(file), error);
  return error ? fs::absolute(file).lexically_normal() : whole;
}

/// The file that a word of the command line may name; whether there is one is not asked.
fs::path file_of_word(const std::string& word) {
  if (word == "-") return "/dev/stdin";  // a file may be behind it
  std::error_code ignored;
  if (fs::exists(word, ignored)) return word;
  if (word.starts_with('@')) return word.substr(1);
  if (const std::string addressed = path_of_address(word); !addressed.empty()) return addressed;
  if (word.empty() || word.find('/') != word.npos) return word;
  if (const auto model = named_model(word)) return *model;
  return bundled_labels(word).value_or(word);
}

struct WrittenFile {
  fs::path file;
  std::string place;  ///< "`output` x.csv"
};

/// The files that come into being for the value of an option: the file, and what it is called until it is whole.
std::vector<WrittenFile> written_for(const GivenOption& given, const std::string& value) {
  if (is_stream(value)) return {};
  const std::string place = given.origin + " " + value;
  return {{value, place}, {beside(end_of_links(value), ".part"), place}};
}

}  // namespace

void refuse_input(const fs::path& to, const std::string& place, const fs::path& read) {
  std::error_code ignored;
  const bool may_be_shard =
      read.native().ends_with(".index.json") && fs::exists(to, ignored) &&
      is_same_file(fs::absolute(to).parent_path(), fs::absolute(read).parent_path());
  if (may_be_shard || is_same_file(to, read))
    throw UsageError("the file is an input of this run", place, "write another one");
}

void check_written_files(const ParsedOptions& options) {
  std::error_code ignored;
  std::vector<WrittenFile> files;
  std::vector<std::string> words = options.positionals();
  for (const auto& [name, entry] : options.entries()) {
    if (entry.option.kind != ValueKind::text || !entry.option.choices.empty()) continue;
    for (const std::string& value : entry.values) {
      if (!entry.option.is_written) {
        words.push_back(value);
        continue;
      }
      for (WrittenFile& file : written_for(entry, value)) {
        for (const WrittenFile& other : files)
          if (is_same_file(file.file, other.file) || place_of(file.file) == place_of(other.file))
            throw UsageError("names the same file as " + other.place, file.place);
        files.push_back(std::move(file));
      }
    }
  }
  std::erase_if(files,
                [&](const WrittenFile& file) { return !fs::is_regular_file(file.file, ignored); });
  if (files.empty()) return;
  if (const GivenOption* model = options.find(&ModelRequest::word);
      model != nullptr && model->values.empty())
    words.emplace_back(kDefaultModel);
  for (const std::string& word : words) {
    const fs::path read = file_of_word(word);
    for (const WrittenFile& file : files) {
      // A folder may be a model's, with its configuration.
      bool is_read = is_same_file(file.file, read);
      for (const char* name : {"config.json", "preprocessor_config.json"})
        is_read = is_read || is_same_file(file.file, read / name);
      if (is_read)
        throw UsageError("the file is an input of this run", file.place, "write another one");
    }
  }
}

void check_read_files(const ParsedOptions& options) {
  std::error_code ignored;
  for (const auto& [name, entry] : options.entries()) {
    if (!entry.option.is_read) continue;
    for (const std::string& value : entry.values)
      if (!value.empty() && !fs::exists(value, ignored))
        throw NotFound("no such file", entry.origin + " " + value);
  }
}

}  // namespace hydrascope::app
