#include "app/run/progress.h"

#include "app/run/terminal_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr double kBarInterval = 0.1;
constexpr double kLineInterval = 10;
constexpr double kFirstLine = 2;             // of work that takes longer than an interval
constexpr double kMaxShownSeconds = 359999;  // 99:59:59
constexpr std::size_t kDefaultColumns = 80;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// "0:07", "12:34", "1:02:03".
std::string clock_text(double seconds) {
  const auto whole =
      static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, kMaxShownSeconds)));
  const auto two_digits = [](std::int64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  const std::string tail = ':' + two_digits(whole % 60);
  if (hours == 0) return std::to_string(minutes) + tail;
  return std::to_string(hours) + ':' + two_digits(minutes) + tail;
}

}  // namespace

ProgressStyle choose_progress_style(bool quiet, bool no_progress, bool is_terminal) {
  if (quiet || no_progress) return ProgressStyle::off;
  return is_terminal ? ProgressStyle::bar : ProgressStyle::lines;
}

std::string about(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kMostSeconds = 99;
  constexpr double kMostMinutes = 99 * kMinute;
  if (seconds <= kMostSeconds) return "about " + fixed(std::ceil(seconds), 0) + " s";
  if (seconds <= kMostMinutes) return "about " + fixed(std::round(seconds / kMinute), 0) + " min";
  return "about " + fixed(seconds / (kMinute * kMinute), 1) + " h";
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::size_t stderr_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

Progress::Progress(ProgressOptions options, std::ostream& out)
    : options_(std::move(options)), out_(out) {
  if (!options_.seconds) options_.seconds = steady_seconds;
  start_ = options_.seconds();
  // The first line of a log comes after an interval, the first bar at once.
  if (options_.style == ProgressStyle::lines) last_shown_ = start_;
}

Progress::Progress(std::string label, std::optional<std::int64_t> total, bool enabled,
                   std::string unit)
    : Progress(ProgressOptions{
          .label = std::move(label),
          .unit = std::move(unit),
          .total = total,
          .style = choose_progress_style(/*quiet=*/false, !enabled, stderr_is_terminal()),
          .columns = stderr_columns()}) {}

Progress::~Progress() { finish(); }

void Progress::advance(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
  part_ = std::max(0.0, part_ - static_cast<double>(count));
  show();
}

void Progress::add_part(double count) {
  const std::lock_guard lock(mutex_);
  part_ += count;
  show();
}

void Progress::show() {
  if (finished_ || options_.style == ProgressStyle::off) return;
  const double now = options_.seconds();
  if (!is_due(now)) return;
  last_shown_ = now;
  has_shown_ = true;
  if (options_.style == ProgressStyle::bar) {
    out_ << '\r' << bar_line(now - start_) << "\x1b[K" << std::flush;
    bar_is_visible_ = true;
  } else {
    out_ << options_.label << (options_.label.empty() ? "" : ": ") << status(now - start_)
         << std::endl;
  }
}

bool Progress::is_due(double now) const {
  const double since = now - last_shown_;
  if (options_.style == ProgressStyle::bar) return since >= kBarInterval;
  if (has_shown_ || since < kFirstLine) return since >= kLineInterval;
  const double elapsed = now - start_;
  return since >= kLineInterval || elapsed + seconds_left(elapsed).value_or(0) > kLineInterval;
}

void Progress::set_total(std::int64_t total) {
  const std::lock_guard lock(mutex_);
  options_.total = total;
}

void Progress::set_detail(std::string detail) {
  const std::lock_guard lock(mutex_);
  detail_ = std::move(detail);
}

void Progress::hide() {
  const std::lock_guard lock(mutex_);
  erase_bar();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  erase_bar();
}

void Progress::erase_bar() {
  if (std::exchange(bar_is_visible_, false)) out_ << "\r\x1b[K" << std::flush;
}

std::optional<double> Progress::seconds_left(double elapsed) const {
  if (!options_.total || *options_.total <= 0 || units() <= 0 || elapsed <= 0) return std::nullopt;
  const double left = std::max(0.0, static_cast<double>(*options_.total) - units());
  return elapsed * left / units();
}

std::string Progress::status(double elapsed) const {
  const double rate = elapsed > 0 ? units() / elapsed : 0;
  const std::string speed = fixed(rate, rate > 0 && rate < 1 ? 2
                                        : rate < 100         ? 1
                                                             : 0) +
                            ' ' + options_.unit + "/s";
  const std::string detail = detail_.empty() ? "" : "  " + detail_;
  if (!options_.total || *options_.total <= 0) {
    return std::to_string(done_) + ' ' + options_.unit + "  " + speed + "  " + clock_text(elapsed) +
           detail;
  }
  const std::int64_t total = std::max(*options_.total, done_);
  const double share = std::min(units() / static_cast<double>(total), 1.0);
  std::string text = std::to_string(done_) + '/' + std::to_string(total) + "  " +
                     fixed(std::floor(share * 100), 0) + " %  " + speed;
  if (const std::optional<double> left = seconds_left(elapsed))
    text += "  " + clock_text(*left) + " left of " + clock_text(elapsed + *left);
  return text + detail;
}

std::string Progress::bar_line(double elapsed) const {
  constexpr std::size_t kBarColumns = 20;
  constexpr std::size_t kMinBarColumns = 8;
  std::string line = options_.label + (options_.label.empty() ? "" : "  ");
  const std::string tail = status(elapsed);
  // The last column stays free: a character there makes some terminals begin a new line.
  const std::size_t room = std::max<std::size_t>(options_.columns, 1) - 1;
  const std::size_t used = line.size() + tail.size() + 4;
  if (options_.total && *options_.total > 0 && room >= used + kMinBarColumns) {
    const std::size_t width = std::min(kBarColumns, room - used);
    const double share = std::clamp(units() / static_cast<double>(*options_.total), 0.0, 1.0);
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
    line += '[' + std::string(filled, '=') + std::string(width - filled, ' ') + "]  ";
  }
  return (line + tail).substr(0, room);
}

}  // namespace hydrascope::app
