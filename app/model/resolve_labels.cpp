#include "app/model/resolve_labels.h"

#include "app/run/assets.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"

#include <filesystem>
#include <utility>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

/// Are nine of ten short names equal? Lists of one data set differ in spellings.
bool mean_the_same(const image::Labels& a, const image::Labels& b) {
  if (a.size() != b.size()) return false;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (a.at(index).short_name == b.at(index).short_name) ++equal;
  }
  return equal * 10 >= a.size() * 9;
}

/// The list that comes with a model; nothing where there is none, or none that can be read.
std::optional<image::Labels> own_labels(const ModelSource& source) {
  try {
    ResolvedLabels own = resolve_labels("", source);
    if (own.origin != LabelOrigin::numbers) return std::move(own.labels);
  } catch (const Error&) {  // `--labels` may be there instead
  }
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> labels_file(const std::string& given) {
  if (given.empty()) return std::nullopt;
  std::error_code ignored;
  if (fs::exists(given, ignored)) return given;
  const std::optional<fs::path> bundled = bundled_labels(given);
  if (!bundled) throw NotFound("no such file", "`labels` " + given);
  return bundled;
}

ResolvedLabels resolve_labels(const std::string& word, const ModelSource& source) {
  const std::int64_t classes = source.config.num_classes;
  const auto checked = [&](image::Labels labels, const std::string& subject) {
    if (std::cmp_not_equal(labels.size(), classes)) {
      throw Error(ErrorCode::invalid_argument,
                  "names " + std::to_string(labels.size()) + " classes, the model has " +
                      std::to_string(classes),
                  subject);
    }
    return labels;
  };
  if (const auto file = labels_file(word))
    return {checked(image::Labels::load(*file), file->string()), LabelOrigin::names, ""};
  if (!source.classes.empty())
    return {image::Labels::of(source.classes, source.name), LabelOrigin::names, ""};
  if (classes == 0) return {};
  constexpr std::int64_t kImageNetClasses = 1000;
  const checkpoint::Checkpoint& weights = source.weights;
  // The names of the file's classes say nothing of those of a new classifier.
  if (!source.head.reset) {
    const std::string bundled = weights.is_own() ? weights.metadata("labels") : "";
    const std::string lines = weights.label_lines();
    ResolvedLabels stored;
    std::string subject = weights.file().string();
    if (const auto file = bundled_labels(bundled)) {
      stored = {image::Labels::load(*file), LabelOrigin::bundled, bundled};
    } else if (!bundled.empty() && bundled_labels("imagenet1k")) {  // the bundled lists are there
      throw Error(ErrorCode::unsupported_format,
                  "labels: expected the name of a bundled list, found '" + bundled + "'", subject,
                  "`labels` FILE names the classes");
    } else if (!lines.empty()) {
      if (!weights.hub().labels.empty()) subject = weights.hub().file.string();
      stored = {image::Labels::parse(lines, subject), LabelOrigin::names, ""};
      // Hugging Face's configurations spell ImageNet's classes out, without the synset ids.
      if (const auto imagenet = bundled_labels("imagenet1k");
          imagenet && mean_the_same(stored.labels, image::Labels::load(*imagenet)))
        stored = {image::Labels::load(*imagenet), LabelOrigin::bundled, "imagenet1k"};
    } else if (const auto usual = bundled_labels("imagenet1k");
               usual && classes == kImageNetClasses) {
      return {checked(image::Labels::load(*usual), usual->string()), LabelOrigin::bundled,
              "imagenet1k"};
    }
    const bool of_another_head =
        source.head.num_classes && std::cmp_not_equal(stored.labels.size(), classes);
    if (stored.origin != LabelOrigin::numbers && !of_another_head) {
      stored.labels = checked(std::move(stored.labels), subject);
      return stored;
    }
  }
  return {image::Labels::numbered(classes), LabelOrigin::numbers, ""};
}

void require_same_classes(const ModelSource& first, const ModelSource& other,
                          const std::string& option) {
  require_same_classes(first, own_labels(first), other, option);
}

void require_same_classes(const ModelSource& first, const std::optional<image::Labels>& expected,
                          const ModelSource& other, const std::string& option) {
  const std::string subject = option + " " + other.name;
  if (other.config.num_classes != first.config.num_classes)
    throw UsageError("has " + std::to_string(other.config.num_classes) + " classes, " + first.name +
                         " has " + std::to_string(first.config.num_classes),
                     subject);
  const std::optional<image::Labels> found = own_labels(other);
  if (!expected || !found) return;
  const bool have_ids = expected->has_ids() && found->has_ids();
  for (std::int64_t i = 0; i < first.config.num_classes; ++i) {
    const auto word_of = [&](const image::Labels& labels) {
      return have_ids ? labels.at(i).id : labels.at(i).short_name;
    };
    if (word_of(*found) != word_of(*expected))
      throw UsageError("has other classes: its class " + std::to_string(i) + " is " +
                           word_of(*found) + ", of " + first.name + " it is " + word_of(*expected),
                       subject);
  }
}

}  // namespace hydrascope::app
