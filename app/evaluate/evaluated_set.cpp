#include "app/evaluate/evaluated_set.h"

#include "app/pictures/folder_listing.h"
#include "app/pictures/labelled_set.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

bool is_folder(const std::string& word) {
  std::error_code ignored;
  return std::filesystem::is_directory(word, ignored);
}

std::string folder_of(const SetRequest& request) {
  const std::vector<std::string>& words = request.words;
  if (words.size() != 1) {
    throw UsageError("expected one folder, found " + std::to_string(words.size()), request.command);
  }
  if (!is_folder(words[0])) throw UsageError("no such folder", words[0]);
  return words[0];
}

void require_labels(const SetRequest& request) {
  if (request.needs_labels.empty()) return;
  throw UsageError("the pictures have no labels", request.needs_labels,
                   "name them with --labels-csv FILE");
}

LabelledSet read_pictures(const SetRequest& request, const image::Labels& labels) {
  const std::string& csv = request.labels_csv;
  if (request.ignores_labels && !csv.empty())
    throw UsageError("labels are given", "--no-labels with --labels-csv");
  if (!csv.empty()) return read_labels_csv(csv, folder_of(request), labels);
  if (request.ignores_labels) require_labels(request);
  const std::vector<std::string>& words = request.words;
  const bool is_of_classes = words.size() == 1 && is_folder(words[0]) && has_subfolders(words[0]);
  if (request.ignores_labels || (request.may_lack_labels && !is_of_classes))
    return read_unlabelled(words, request.recursive, request.command);
  return read_folder_classes(folder_of(request), labels);
}

void check_targets(const LabelledSet& set, std::int64_t num_classes) {
  for (const LabelledPicture& picture : set.pictures) {
    if (picture.target >= num_classes) {
      throw UsageError("class " + std::to_string(picture.target) + " of " + picture.file.string() +
                           " is beyond the model's " + std::to_string(num_classes),
                       "evaluate");
    }
  }
}

/// `compare` and its sisters look at a picture more than once, in its file.
void refuse_what_is_no_file(Input& input, const std::string& command) {
  if (!input.is_video && !input.memory) return;
  input.error = ErrorCode::unsupported_format;
  input.message = input.is_video
                      ? "is a video; " + command + " takes pictures"
                      : "standard input is a picture; " + command + " takes the names of files";
}

}  // namespace

Input input_of(const LabelledPicture& picture) {
  return {picture.file.string(), picture.file, false, picture.error, picture.message};
}

void thin_out(LabelledSet& set, std::size_t count) {
  const std::size_t all = set.pictures.size();
  if (count >= all) return;
  for (std::size_t i = 0; i < count; ++i) set.pictures[i] = set.pictures[i * all / count];
  set.pictures.resize(count);
}

LabelledSet read_unlabelled(const std::vector<std::string>& words, bool recursive,
                            const std::string& command) {
  if (words.empty()) throw UsageError("name pictures or a folder of them", command);
  LabelledSet set;
  set.has_labels = false;
  set.rule = "none";
  StoppableInput standard_input_buffer(STDIN_FILENO);
  std::istream standard_input(&standard_input_buffer);
  InputStream inputs(words, recursive, standard_input);
  std::optional<Input> misnamed;  // by the user
  while (std::optional<Input> input = inputs.next()) {
    if (!input->error) refuse_what_is_no_file(*input, command);
    set.pictures.push_back(labelled_picture(*input));
    const bool is_named = std::ranges::find(words, input->given) != words.end();
    if (input->error && is_named && !misnamed) misnamed = std::move(input);
  }
  set.passed = inputs.passed();
  if (set.readable() == 0 && misnamed) {
    const bool is_missing = misnamed->error == ErrorCode::not_found;
    throw Error(is_missing ? ErrorCode::invalid_argument : *misnamed->error, misnamed->message,
                misnamed->given);
  }
  return set;
}

LabelledSet read_evaluated_set(const SetRequest& request, const image::Labels& labels,
                               std::int64_t num_classes) {
  LabelledSet set = read_pictures(request, labels);
  if (!request.real_labels.empty()) read_real_labels(request.real_labels, num_classes, set);
  if (!set.has_labels) require_labels(request);
  check_targets(set, num_classes);
  if (request.limit) thin_out(set, *request.limit);
  return set;
}

}  // namespace hydrascope::app
