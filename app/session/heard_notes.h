// Notes that a console was told, kept for callers who do not read its terminal.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// May be asked and told from several threads.
class HeardNotes {
 public:
  /// For `Console::heard`. Keeps "note: ...", each once, without that word.
  void hear(std::string_view text) {
    constexpr std::string_view kPrefix = "note: ";
    if (!text.starts_with(kPrefix)) return;
    text.remove_prefix(kPrefix.size());
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(notes_, text) == notes_.end()) notes_.emplace_back(text);
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;  ///< guarded by the mutex
};

}  // namespace hydrascope::app
