#include "app/run/console.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {

Console::Console(const ParsedOptions& options)
    : verbose(options.flag("verbose")),
      quiet(options.flag("quiet")),
      progress(!options.flag("no-progress") && !quiet) {
  const std::string& word = options.text("color");
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const std::string& output = options.text("output");
  color = word == "always" || (word != "never" && wanted && (output.empty() || output == "-") &&
                               isatty(STDOUT_FILENO) == 1);
}

Console Console::errors_only() const {
  Console console = *this;
  console.verbose = false;
  console.quiet = true;
  console.progress = false;
  return console;
}

void Console::note(std::string_view text) const {
  if (!quiet) std::cerr << with_flags(text) << '\n';
}

void Console::detail(std::string_view text) const {
  if (verbose) std::cerr << text << '\n';
}

void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // The lowest number is free, hence this one is taken. What nobody hears of errors is no error,
    // but results that nobody gets are: writing them fails.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    static_cast<void>(::open("/dev/null", mode));
  }
}

std::string with_flags(std::string_view text) {
  struct Spelling {
    std::string_view field;
    std::string_view flag;
  };
  constexpr std::array kSpellings{
      Spelling{"attention", "--attn"},
      Spelling{"attention_options", "--attn-opt"},
      Spelling{"auto_augment", "--aa"},
      Spelling{"batch_size", "--batch-size"},
      Spelling{"checkpoint", "--checkpoint"},
      Spelling{"clip_grad", "--clip-grad"},
      Spelling{"device", "--device"},
      Spelling{"force", "--force"},
      Spelling{"format_only", "convert --format-only"},
      Spelling{"from", "--from"},
      Spelling{"img_size", "--img-size"},
      Spelling{"keep_layer", "--keep-layer"},
      Spelling{"keep_tokens", "--keep-tokens"},
      Spelling{"kernels", "--kernels"},
      Spelling{"lr", "--lr"},
      Spelling{"mapless", "--mapless"},
      Spelling{"model", "--model"},
      Spelling{"num_classes", "--num-classes"},
      Spelling{"precision", "--precision"},
      Spelling{"reset_head", "--reset-head"},
      Spelling{"resume", "--resume"},
      Spelling{"start", "--start"},
      Spelling{"train_from", "--train-from"},
      Spelling{"use_ema", "--use-ema"},
  };
  std::string result;
  while (true) {
    const std::size_t open = text.find('`');
    const std::size_t close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return result.append(text);
    const std::string_view field = text.substr(open + 1, close - open - 1);
    const auto* spelling = std::ranges::find(kSpellings, field, &Spelling::field);
    // What is quoted and no field stays; its end may be another one's begin.
    result += text.substr(0, open);
    result += spelling != kSpellings.end() ? spelling->flag : text.substr(open, close - open);
    text.remove_prefix(spelling != kSpellings.end() ? close + 1 : close);
  }
}

std::vector<std::string> with_flags(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(with_flags(text));
  return result;
}

void print_error(const Error& error) { std::cerr << error_text(error) + '\n'; }

std::string error_text(const Error& error) {
  std::string text = std::string("error: ") + error.what();
  if (!error.subject().empty()) text += " (" + error.subject() + ")";
  if (!error.hint().empty()) text += "\nhint: " + error.hint();
  return with_flags(text);
}

}  // namespace hydrascope::app
