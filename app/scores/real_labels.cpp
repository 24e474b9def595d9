#include "app/scores/real_labels.h"

#include "app/run/usage_error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::app {
namespace {

/// 42 of ILSVRC2012_val_00000042.JPEG.
std::optional<std::size_t> validation_number(const std::filesystem::path& file) {
  constexpr std::string_view kBegin = "ILSVRC2012_val_";
  const std::string stem = file.stem().string();
  if (!stem.starts_with(kBegin)) return std::nullopt;
  std::size_t number = 0;
  const char* end = stem.data() + stem.size();
  const auto [rest, status] = std::from_chars(stem.data() + kBegin.size(), end, number);
  if (status != std::errc() || rest != end || number == 0) return std::nullopt;
  return number;
}

/// An entry of the file as class indices.
std::vector<std::int64_t> classes_of(const nlohmann::json& entry, std::int64_t num_classes,
                                     const std::string& place) {
  const auto is_class = [&](const nlohmann::json& value) {
    return value.is_number_integer() && value.get<std::int64_t>() >= 0 &&
           value.get<std::int64_t>() < num_classes;
  };
  if (!entry.is_array() || !std::ranges::all_of(entry, is_class)) {
    throw UsageError(
        "expected a list of class indices from 0 to " + std::to_string(num_classes - 1), place);
  }
  return entry.get<std::vector<std::int64_t>>();
}

}  // namespace

void read_real_labels(const std::filesystem::path& file, std::int64_t num_classes,
                      LabelledSet& set) {
  const std::string subject = "--real-labels " + file.string();
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UsageError("cannot be read", subject);
  const nlohmann::json lists =
      nlohmann::json::parse(stream, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!lists.is_array()) throw UsageError("expected a JSON list of lists", subject);
  const bool numbered = std::ranges::all_of(set.pictures, [](const LabelledPicture& picture) {
    return validation_number(picture.file).has_value();
  });
  if (!numbered && lists.size() != set.pictures.size()) {
    throw UsageError("holds " + std::to_string(lists.size()) + " lists for " +
                         std::to_string(set.pictures.size()) + " pictures",
                     subject);
  }
  for (std::size_t i = 0; i < set.pictures.size(); ++i) {
    LabelledPicture& picture = set.pictures[i];
    const std::size_t at = numbered ? *validation_number(picture.file) - 1 : i;
    if (at >= lists.size()) {
      throw UsageError("has no list for " + picture.file.filename().string(), subject);
    }
    picture.valid =
        classes_of(lists[at], num_classes, subject + ", list " + std::to_string(at + 1));
  }
  set.has_real_labels = true;
}

}  // namespace hydrascope::app
