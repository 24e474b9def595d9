#include "app/run/console.h"

#include "app/run/terminal_text.h"
#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {

Console Console::errors_only() const {
  Console console = *this;
  console.verbose = false;
  console.quiet = true;
  console.progress = false;
  console.heard = {};
  return console;
}

void Console::note(std::string_view text) const {
  const std::string said = printable_lines(with_flags(text));
  if (!quiet) std::cerr << said << '\n';
  if (heard) heard(said);
}

void Console::detail(std::string_view text) const {
  if (verbose) std::cerr << printable_lines(text) << '\n';
}

void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // The lowest number is free, hence this one is taken. An error that nobody hears is no error,
    // but results that nobody gets are: writing them fails.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) < 0) static_cast<void>(::open("/", O_RDONLY));
  }
}

namespace {

/// The option of a field; "" where it is no field.
std::string flag_of(std::string_view field) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOtherNames{
      {{"attention", "--attn"},
       {"attention_options", "--attn-opt"},
       {"auto_augment", "--aa"},
       {"format_only", "convert --format-only"},
       {"rel_pos_options", "--rel-pos-opt"}}};
  constexpr std::array<std::string_view, 25> kSameNames{
      "batch_size",  "checkpoint", "clip_grad", "crop_mode", "device",  "fit",        "force",
      "from",        "img_size",   "kernels",   "lr",        "mapless", "model",      "native",
      "num_classes", "port",       "pos_embed", "precision", "rel_pos", "reset_head", "resume",
      "start",       "train_from", "use_ema",   "views"};
  for (const auto& [name, flag] : kOtherNames)
    if (name == field) return std::string(flag);
  if (std::ranges::find(kSameNames, field) == kSameNames.end()) return {};
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

}  // namespace

std::string with_flags(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t open = text.find('`');
    const std::size_t close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return result.append(text);
    const std::string_view field = text.substr(open + 1, close - open - 1);
    const std::string flag = flag_of(field);
    // A quotation that is no field stays; its end may be another one's begin.
    result += text.substr(0, open);
    result += flag.empty() ? text.substr(open, close - open) : flag;
    text.remove_prefix(flag.empty() ? close : close + 1);
  }
}

std::vector<std::string> with_flags(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(with_flags(text));
  return result;
}

void print_error(const Error& error) { std::cerr << error_text(error) + '\n'; }

std::string error_text(const Error& error) {
  std::string text = "error: " + printable(error.what());
  if (!error.subject().empty()) text += " (" + printable(error.subject()) + ")";
  if (!error.hint().empty()) text += "\nhint: " + printable(error.hint());
  return with_flags(text);
}

void report_to_torchelastic(const std::string& message) noexcept {
  try {
    const char* file = std::getenv("TORCHELASTIC_ERROR_FILE");
    if (file == nullptr || *file == '\0') return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    // torchrun's summary shows "py_callstack", the rest is for its log.
    const nlohmann::json error = {
        {"message",
         {{"message", message},
          {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(seconds)}}}}}};
    std::ofstream(file) << error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace hydrascope::app
