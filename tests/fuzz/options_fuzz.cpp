// Command lines, a word a line, and behind them a file of --config.
#include "app/command.h"
#include "app/command_line.h"
#include "app/options/options.h"
#include "app/options/requests.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>

namespace app = hydrascope::app;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    // What a process is started with has no zero bytes.
    const std::string_view line = text.substr(0, std::min(end, text.find('\0')));
    lines.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

/// Of the commands that are asked for pictures; the others ask for parts of it.
void ask(const app::CommandSpec& command, const app::ParsedOptions& options) {
  if (command.name == "classify" || command.name == "visualize" || command.name == "evaluate")
    app::pictures_request(options, app::AutoExif::upright);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hydrascope::fuzz::Folder kFolder;
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 2);
  std::vector<std::string> words = lines_of(parts[0]);
  static_cast<void>(app::completions(app::command_specs(), words));
  words = app::with_command(words);
  const app::CommandSpec* command = app::find_command(words.front());
  if (command == nullptr) return 0;
  words.erase(words.begin());
  gives_result([&] { ask(*command, app::parse(*command, words, app::ConfigFile::left_alone)); });
  words.insert(words.begin(), "--config=" + kFolder.write("config.json", parts[1]).string());
  words.erase(std::next(words.begin()), words.end());
  gives_result([&] {
    const app::ParsedOptions options = app::parse(*command, words);
    gives_result([&] { ask(*command, options); });
    const std::string dumped = options.dump_config();
    words.front() = "--config=" + kFolder.write("again.json", dumped).string();
    require(app::parse(*command, words).dump_config() == dumped, "what is written is read");
  });
  return 0;
}
