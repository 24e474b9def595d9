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

/// "0:07", "12:34", "1:02:03".
std::string clock_text(double seconds) {
  constexpr double kMost = 359999;  // 99:59:59
  const auto whole = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, kMost)));
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

std::string about(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kMostSeconds = 99;
  constexpr double kMostMinutes = 99 * kMinute;
  if (seconds <= kMostSeconds) return "about " + fixed(std::ceil(seconds), 0) + " s";
  if (seconds <= kMostMinutes) return "about " + fixed(std::round(seconds / kMinute), 0) + " min";
  return "about " + fixed(seconds / (kMinute * kMinute), 1) + " h";
}

Progress::Progress(ProgressOptions options, std::ostream& out)
    : options_(std::move(options)), out_(out) {
  if (!options_.seconds)
    options_.seconds = [] {
      const auto now = std::chrono::steady_clock::now();
      return std::chrono::duration<double>(now.time_since_epoch()).count();
    };
  start_ = options_.seconds();
  // The first line of a log comes after an interval, the first bar at once.
  if (options_.style == ProgressStyle::lines) last_shown_ = start_;
}

Progress::Progress(std::string label, std::optional<std::int64_t> total, bool enabled,
                   std::string unit)
    : Progress(
          ProgressOptions{.label = std::move(label), .unit = std::move(unit), .total = total}) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options_.columns = size.ws_col;
  if (!enabled) return;
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  options_.style = is_terminal ? ProgressStyle::bar : ProgressStyle::lines;
  if (!is_terminal) last_shown_ = start_;
}

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
  if (std::exchange(bar_is_visible_, false)) out_ << "\r\x1b[K" << std::flush;
}

void Progress::finish() {
  hide();
  const std::lock_guard lock(mutex_);
  options_.style = ProgressStyle::off;
}

void Progress::show() {
  if (!is_shown()) return;
  constexpr double kBarInterval = 0.1;
  constexpr double kLineInterval = 10;
  const bool is_bar = options_.style == ProgressStyle::bar;
  const double now = options_.seconds();
  if (now - last_shown_ < (is_bar ? kBarInterval : kLineInterval)) return;
  last_shown_ = now;
  const std::string text = status(now - start_);
  bar_is_visible_ = is_bar;
  if (is_bar) {
    // The last column stays free: a character there makes some terminals begin a new line.
    const std::size_t room = std::max<std::size_t>(options_.columns, 1) - 1;
    out_ << '\r' << (options_.label + (options_.label.empty() ? "" : "  ") + text).substr(0, room)
         << "\x1b[K" << std::flush;
  } else {
    out_ << options_.label << (options_.label.empty() ? "" : ": ") << text << std::endl;
  }
}

std::string Progress::status(double elapsed) const {
  const double units = static_cast<double>(done_) + part_;
  const double rate = elapsed > 0 ? units / elapsed : 0;
  const int decimals = rate > 0 && rate < 1 ? 2 : rate < 100 ? 1 : 0;
  const std::string speed = fixed(rate, decimals) + ' ' + options_.unit + "/s";
  const std::string detail = detail_.empty() ? "" : "  " + detail_;
  if (options_.total.value_or(0) <= 0)
    return std::to_string(done_) + ' ' + options_.unit + "  " + speed + "  " + clock_text(elapsed) +
           detail;
  const std::int64_t total = std::max(*options_.total, done_);
  const double share = std::min(units / static_cast<double>(total), 1.0);
  std::string text;
  if (options_.style == ProgressStyle::bar) {
    constexpr std::size_t kColumns = 10;
    const auto filled = static_cast<std::size_t>(share * kColumns);
    text = '[' + std::string(filled, '=') + std::string(kColumns - filled, ' ') + "]  ";
  }
  text += std::to_string(done_) + '/' + std::to_string(total) + "  " +
          fixed(std::floor(share * 100), 0) + " %  " + speed;
  if (rate > 0) {
    const double left = std::max(0.0, static_cast<double>(*options_.total) - units) / rate;
    text += "  " + clock_text(left) + " left of " + clock_text(elapsed + left);
  }
  return text + detail;
}

}  // namespace hydrascope::app
