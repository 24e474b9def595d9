#include "app/visualize/output_names.h"

#include <algorithm>
#include <system_error>

namespace hydrascope::app {
namespace {

/// Linux takes 255 bytes; the rest is for numbers, ".heatmap.png" and a temporary suffix.
constexpr std::size_t kLongestName = 200;

/// Not in the middle of a UTF-8 character.
std::string cut(std::string name) {
  if (name.size() <= kLongestName) return name;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  name.resize(end);
  return name;
}

}  // namespace

std::string OutputNames::name_for(const std::filesystem::path& input) {
  std::string stem = cut(input.stem().native());
  if (stem.empty() || stem == "." || stem == "..") stem = "input";
  std::string name = stem;
  if (is_input(name) || !taken_.insert(name).second) {
    int& number = last_number_.try_emplace(stem, 1).first->second;
    do {
      name = stem + "-" + std::to_string(++number);
    } while (is_input(name) || !taken_.insert(name).second);
  }
  return name;
}

bool OutputNames::is_input(const std::string& name) const {
  return std::ranges::any_of(endings_, [&](const std::string& ending) {
    const std::filesystem::path file = folder_ / (name + ending);
    std::error_code none;
    return std::ranges::any_of(inputs_, [&](const std::filesystem::path& input) {
      return std::filesystem::equivalent(file, input, none);
    });
  });
}

}  // namespace hydrascope::app
