#include "app/pictures/input_count.h"

#include "app/pictures/inputs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stop_token>
#include <utility>

namespace hydrascope::app {
namespace {

/// Whether reading `word` once more changes nothing.
bool can_be_walked_twice(const std::string& word) {
  namespace fs = std::filesystem;
  if (word == "-") return false;
  std::error_code ignored;
  if (fs::exists(word, ignored) || !word.starts_with('@')) return true;
  return fs::is_regular_file(word.substr(1), ignored);
}

std::optional<std::int64_t> count_inputs(const std::stop_token& stop,
                                         const std::vector<std::string>& words, bool recursive,
                                         const std::function<bool(std::int64_t)>& takes) {
  std::istringstream nothing;
  InputStream inputs(words, recursive, nothing);
  std::int64_t count = 0;
  for (std::int64_t number = 0; const std::optional<Input> input = inputs.next(); ++number) {
    if (stop.stop_requested() || input->is_video) return std::nullopt;
    if (!takes || takes(number)) ++count;
  }
  return count;
}

}  // namespace

InputCount::InputCount(std::vector<std::string> words, bool recursive, Progress& progress,
                       std::function<bool(std::int64_t)> takes)
    : words_(std::move(words)),
      recursive_(recursive),
      progress_(progress),
      takes_(std::move(takes)) {}

InputCount::~InputCount() = default;

void InputCount::begin() {
  if (std::exchange(begun_, true) || !progress_.is_shown()) return;
  std::error_code ignored;
  if (words_.size() == 1 && std::filesystem::is_regular_file(words_.front(), ignored)) return;
  if (!std::ranges::all_of(words_, can_be_walked_twice)) return;
  counter_ = std::jthread([this](const std::stop_token& stop) {
    if (const auto count = count_inputs(stop, words_, recursive_, takes_))
      progress_.set_total(*count);
  });
}

}  // namespace hydrascope::app
