#include "app/train/subject.h"

#include "app/options/option_table.h"
#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "kernels/number_text.h"
#include "model/config/architectures.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using model::training::TrainingPicture;

struct Folders {
  fs::path training;
  std::optional<fs::path> validation;
};

Folders find_folders(const std::vector<std::string>& words) {
  if (words.size() != 1) {
    throw UsageError("expected one folder of pictures, found " + std::to_string(words.size()),
                     "train", "hydrascope train imagenette/");
  }
  const fs::path root = words[0];
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) throw NotFound("no such folder", words[0]);
  Folders folders;
  folders.training = root / kSplits.front();
  if (!fs::is_directory(folders.training, ignored)) return {root, std::nullopt};
  const auto* const found = std::find_if(
      kSplits.begin() + 1, kSplits.end(),
      [&](const std::string_view name) { return fs::is_directory(root / name, ignored); });
  if (found != kSplits.end()) folders.validation = root / *found;
  return folders;
}

/// One class per folder, in their order; synsets with the names that ImageNet has for them.
ResolvedLabels labels_of_folders(const fs::path& folder) {
  std::optional<image::Labels> imagenet;
  if (const auto file = bundled_labels("imagenet1k")) imagenet = image::Labels::load(*file);
  std::string lines;
  for (const fs::path& path : class_folders(folder)) {
    const std::string name = path.filename().string();
    const std::optional<std::int64_t> known =
        imagenet ? imagenet->find_id(name) : std::optional<std::int64_t>();
    lines += known ? imagenet->at(*known).id + " " + imagenet->at(*known).names : name;
    lines += '\n';
  }
  return {image::Labels::parse(lines, folder.string()), LabelOrigin::names, ""};
}

/// Pictures whose folders say their classes. Numbers are indices where the model's classes have no
/// other names or `may_be_indices`; else a model that learns the digits 0 to 9 would keep the names
/// of what it no longer tells apart.
LabelledSet read_named_classes(const fs::path& folder, const ResolvedLabels& labels,
                               bool may_be_indices, const std::string& hint) {
  LabelledSet set = read_folder_classes(folder, labels.labels, hint);
  if (set.is_by_index && labels.origin != LabelOrigin::numbers && !may_be_indices) {
    throw UsageError("no folder is named after a class of the model", folder.string(), hint);
  }
  return set;
}

/// "" where every class has pictures.
std::string classes_without_pictures(const LabelledSet& set, const image::Labels& labels) {
  std::vector<bool> has_some(labels.size());
  for (const LabelledPicture& picture : set.pictures)
    if (!picture.error) has_some[static_cast<std::size_t>(picture.target)] = true;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < has_some.size(); ++i)
    if (!has_some[i]) names.push_back(labels.at(static_cast<std::int64_t>(i)).short_name);
  return some_of(names, 5);
}

std::vector<LabelledPicture> labelled(const std::vector<TrainingPicture>& pictures) {
  std::vector<LabelledPicture> result;
  for (const TrainingPicture& picture : pictures) result.push_back({picture.file, picture.target});
  return result;
}

}  // namespace

TrainingSubject open_subject(const TrainingRequest& request, double held_out) {
  const ModelRequest& model = request.model;
  const Folders folders = find_folders(request.words);
  TrainingSubject subject;
  const bool is_new = names_architecture(model);
  subject.source = is_new ? random_model(model) : open_model(model);
  model::VitConfig& config = subject.source.config;
  leave_out_exits(config);
  config.exit_threshold = 1;
  const bool has_new_head = is_new || model.reset_head || config.num_classes == 0 ||
                            (model.num_classes && *model.num_classes != config.num_classes);
  if (has_new_head && request.labels.empty()) {
    subject.labels = labels_of_folders(folders.training);
    const auto classes = static_cast<std::int64_t>(subject.labels.labels.size());
    if (model.num_classes && *model.num_classes != classes) {
      throw UsageError(
          "there are " + std::to_string(classes) + " folders of classes in " +
              folders.training.string(),
          "`num_classes` " + std::to_string(*model.num_classes),
          "`labels` FILE names the classes of a larger classifier, `labels` imagenet1k "
          "ImageNet's");
    }
    config.num_classes = classes;
    if (!is_new) subject.source.head.num_classes = classes;
  } else {
    if (model.num_classes) {
      config.num_classes = *model.num_classes;
    } else if (has_new_head) {
      config.num_classes =
          static_cast<std::int64_t>(image::Labels::load(*labels_file(request.labels)).size());
    }
    if (has_new_head && !is_new) subject.source.head.num_classes = config.num_classes;
    subject.labels = resolve_labels(request.labels, subject.source);
  }
  subject.transform = resolve_transform(request.transform, subject.source);
  const image::Size size = training_transform(subject.transform).img_size;
  if (is_new) {
    config.img_height = size.height;
    config.img_width = size.width;
  }
  model::validate(config);

  if (folders.validation && held_out > 0) {
    throw UsageError("there are pictures to validate on: " + folders.validation->string(),
                     "`held_out`");
  }
  constexpr const char* kNewHead =
      "`reset_head` trains a classifier of these folders' classes; `labels` FILE names the model's "
      "own, a line each, and folders named by numbers are its lines, from 0";
  // Then the user says which class an index is.
  const bool names_classes = !request.labels.empty();
  const LabelledSet set =
      read_named_classes(folders.training, subject.labels, names_classes,
                         has_new_head ? "name the folders after classes" : kNewHead);
  for (const LabelledPicture& picture : set.pictures) {
    if (picture.error) {
      subject.failed.push_back(input_of(picture));
    } else {
      subject.training.push_back({picture.file, picture.target});
    }
  }
  subject.notes = set.notes();
  if (folders.validation) {
    LabelledSet validation = read_named_classes(*folders.validation, subject.labels, names_classes,
                                                "name its folders as those that are learned from");
    std::ranges::move(validation.notes(), std::back_inserter(subject.notes));
    subject.validation = std::move(validation.pictures);
  } else if (held_out > 0) {
    constexpr double kMostShare = 0.9;
    const double share =
        held_out < 1 ? held_out : held_out / static_cast<double>(subject.training.size());
    if (share > kMostShare) {
      throw UsageError("too few pictures would be left to learn from, of " +
                           std::to_string(subject.training.size()),
                       "`held_out` " + shortest_number(held_out));
    }
    model::training::Split split =
        model::training::hold_out(std::move(subject.training), share, request.run.seed);
    subject.training = std::move(split.training);
    subject.validation = labelled(split.held_out);
  }
  subject.about_data = std::to_string(subject.training.size()) + " pictures of " +
                       std::to_string(config.num_classes) + " classes, validated on " +
                       std::to_string(subject.validation.size());
  // A model that exists may well go on with some of its classes alone.
  const std::string none =
      has_new_head ? classes_without_pictures(set, subject.labels.labels) : std::string();
  if (!none.empty()) subject.about_data += ", no pictures of " + none;
  return subject;
}

}  // namespace hydrascope::app
