#include "app/evaluate/evaluated_set.h"

#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/real_labels.h"
#include "app/folder_walk.h"
#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

std::string folder_of(const ParsedOptions& options) {
  const std::vector<std::string> words = input_words(options);
  if (words.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "expected one folder, found " + std::to_string(words.size()), "evaluate");
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(words[0], ignored))
    throw Error(ErrorCode::invalid_argument, "no such folder", words[0]);
  return words[0];
}

bool holds_folders(const std::string& folder) {
  return std::ranges::any_of(list_folder(folder), [](const FolderEntry& entry) {
    return entry.kind == EntryKind::folder && !is_hidden(entry.name);
  });
}

LabelledSet read_unlabelled(const std::string& folder, bool recursive) {
  LabelledSet set;
  set.has_labels = false;
  set.rule = "none";
  FolderWalk walk(folder, folder, recursive);
  while (const std::optional<Input> input = walk.next()) {
    if (input->error) throw Error(*input->error, input->message, input->given);
    if (!input->is_video) set.pictures.push_back({input->path});
  }
  return set;
}

void refuse_scores(const ParsedOptions& options) {
  for (const char* name :
       {"require-top1", "per-class", "confusions", "save-errors", "faithfulness"}) {
    if (options.given(name))
      throw Error(ErrorCode::invalid_argument, "the pictures have no labels", options.origin(name),
                  "name them with --labels-csv FILE");
  }
}

LabelledSet read_pictures(const ParsedOptions& options, const image::Labels& labels) {
  const std::string folder = folder_of(options);
  const std::string& csv = options.text("labels-csv");
  if (options.flag("no-labels")) {
    if (!csv.empty())
      throw Error(ErrorCode::invalid_argument, "labels are given", "--no-labels with --labels-csv");
    refuse_scores(options);
    return read_unlabelled(folder, options.flag("recursive"));
  }
  if (!csv.empty()) return read_labels_csv(csv, folder, labels);
  if (compares_models(options) || options.given("diagnostics")) {
    if (!holds_folders(folder)) return read_unlabelled(folder, /*recursive=*/false);
  }
  return read_folder_classes(folder, labels);
}

void check_targets(const LabelledSet& set, std::int64_t num_classes) {
  for (const LabelledPicture& picture : set.pictures) {
    if (picture.target >= num_classes) {
      throw Error(ErrorCode::invalid_argument,
                  "class " + std::to_string(picture.target) + " of " + picture.file.string() +
                      " is beyond the model's " + std::to_string(num_classes),
                  "evaluate");
    }
  }
}

}  // namespace

Input input_of(const LabelledPicture& picture) {
  return {picture.file.string(), picture.file, false, std::nullopt, ""};
}

void thin_out(LabelledSet& set, std::size_t count) {
  const std::size_t all = set.pictures.size();
  if (count >= all) return;
  for (std::size_t i = 0; i < count; ++i) set.pictures[i] = set.pictures[i * all / count];
  set.pictures.resize(count);
}

LabelledSet read_evaluated_set(const ParsedOptions& options, const image::Labels& labels,
                               std::int64_t num_classes) {
  LabelledSet set = read_pictures(options, labels);
  if (const std::string& file = options.text("real-labels"); !file.empty())
    read_real_labels(file, num_classes, set);
  if (!set.has_labels) refuse_scores(options);
  check_targets(set, num_classes);
  if (options.given("limit-images"))
    thin_out(set, static_cast<std::size_t>(options.integer("limit-images")));
  return set;
}

}  // namespace hydrascope::app
