#include "app/evaluate/evaluated_set.h"

#include "app/pictures/folder_listing.h"
#include "app/pictures/labelled_set.h"
#include "app/run/usage_error.h"

#include <filesystem>
#include <string>
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
  if (!is_folder(words[0])) throw NotFound("no such folder", words[0]);
  return words[0];
}

void require_labels(const SetRequest& request) {
  if (request.needs_labels.empty()) return;
  throw UsageError("the pictures have no labels", request.needs_labels,
                   "name them with `labels_csv` FILE");
}

LabelledSet read_pictures(const SetRequest& request, const image::Labels& labels) {
  const std::string& csv = request.labels_csv;
  if (request.ignores_labels && !csv.empty())
    throw UsageError("labels are given", "`no_labels` with `labels_csv`");
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

}  // namespace

LabelledSet read_evaluated_set(const SetRequest& request, const image::Labels& labels,
                               std::int64_t num_classes) {
  LabelledSet set = read_pictures(request, labels);
  if (!set.has_labels) require_labels(request);
  check_targets(set, num_classes);
  if (request.limit) thin_out(set, *request.limit);
  return set;
}

}  // namespace hydrascope::app
