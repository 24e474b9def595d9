// How far a long command is, on standard error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>

namespace hydrascope::app {

enum class ProgressStyle {
  off,
  lines,  ///< a plain line now and then, for logs
  bar,    ///< one line that is drawn over, for terminals
};

struct ProgressOptions {
  std::string label = {};  ///< "classify"
  std::string unit = "images";
  std::optional<std::int64_t> total = {};  ///< unknown while inputs stream
  ProgressStyle style = ProgressStyle::off;
  std::size_t columns = 80;              ///< a bar stays below that
  std::function<double()> seconds = {};  ///< a clock for tests; default: the steady clock
};

/// "about 40 s", "about 14 min", "about 2.5 h".
std::string about(double seconds);

/// Counts work and shows it: a bar at most ten times per second, or a line every ten seconds, with
/// rate and, where the total is known, the time left and the whole time. Shows only when something
/// advanced: no thread of its own. All members may be called from any thread.
class Progress {
 public:
  explicit Progress(ProgressOptions options, std::ostream& out = std::cerr);
  /// On standard error: a bar if that is a terminal, else lines; nothing unless `enabled`.
  Progress(std::string label, std::optional<std::int64_t> total, bool enabled,
           std::string unit = ProgressOptions().unit);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  [[nodiscard]] bool is_shown() const noexcept { return options_.style != ProgressStyle::off; }
  /// 0 shows what is known anew.
  void advance(std::int64_t count = 1);
  /// A part of what `advance` will count, such as a layer of a large picture; several add up. A
  /// counted unit takes its parts with it.
  void add_part(double count);
  void set_total(std::int64_t total);
  /// A further text at the end of the next status: "loss 0.41".
  void set_detail(std::string detail);
  /// Removes the bar until the next `advance`: call it before results or messages go to the
  /// terminal.
  void hide();
  /// Removes the bar for good; nothing is shown afterwards.
  void finish();

 private:
  void show();
  [[nodiscard]] std::string status(double elapsed) const;

  ProgressOptions options_;
  std::ostream& out_;
  std::mutex mutex_;
  double start_ = 0;
  double last_shown_ = -std::numeric_limits<double>::infinity();
  std::int64_t done_ = 0;
  double part_ = 0;
  std::string detail_;
  bool bar_is_visible_ = false;
};

}  // namespace hydrascope::app
