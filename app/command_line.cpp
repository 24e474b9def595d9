#include "app/command_line.h"

#include "app/build_info.h"
#include "app/command.h"
#include "app/options/option_table.h"
#include "app/pictures/inputs.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/local_ranks.h"
#include "app/run/output_file.h"
#include "app/run/signal_stop.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/specs/requests.h"
#include "kernels/limits.h"
#include "model/image/picture_formats.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hydrascope::app {
namespace {

const CommandSpec& command_named(const std::string& word, const std::string& subject) {
  if (const CommandSpec* command = find_command(word)) return *command;
  std::vector<std::string> names;
  for (const CommandSpec& command : command_specs()) {
    names.push_back(command.name);
    names.insert(names.end(), command.aliases.begin(), command.aliases.end());
  }
  const std::string near = nearest(word, names);
  std::string hint = instead_of(word);
  if (hint.empty())
    hint = near.empty() ? "`hydrascope help` lists the commands" : "did you mean " + near + "?";
  if (word.starts_with('-')) hint = "the command comes first: hydrascope classify " + word + " ...";
  throw UsageError("unknown command '" + word + "'", subject, hint);
}

/// The subcommand where `positionals` begin with one.
CommandSpec of_words(const CommandSpec& command, std::span<const std::string> positionals) {
  const bool has_one = !command.subcommands.empty() && !positionals.empty();
  return has_one ? subcommand_spec(command, positionals.front()) : command;
}

int print_help(const ParsedOptions& options) {
  if (options.positionals().empty()) {
    std::cout << overview_text(command_specs(), output_columns());
  } else {
    const std::vector<std::string>& words = options.positionals();
    const CommandSpec& command = command_named(words.front(), "help");
    // Words that follow are checked as the command's own.
    parse_words(command, std::span(words).subspan(1));
    std::cout << help_text(of_words(command, std::span(words).subspan(1)), output_columns());
  }
  return kExitOk;
}

int print_completion(const ParsedOptions& options) {
  if (options.positionals().size() != 1) {
    throw UsageError("name a shell", "completion", "hydrascope completion bash|zsh|fish");
  }
  const auto file = assets_folder() / "completion" / options.positionals().front();
  std::ifstream script(file);
  if (!script) throw Error(ErrorCode::unreadable, "cannot be read", file.string());
  std::cout << script.rdbuf();
  return kExitOk;
}

/// Whether the first word can only be a picture, or a way to name some.
bool names_pictures(const std::string& word) {
  if (word == "-" || word.starts_with('@')) return true;
  if (word.starts_with('-') || find_command(word) != nullptr) return false;
  std::error_code ignored;
  return word.find_first_of("*?[") != std::string::npos || has_image_extension(word) ||
         image::is_named_as_video(word) || std::filesystem::exists(word, ignored);
}

int report(const Error& error, bool verbose) {
  const bool is_usage = error.code() == ErrorCode::invalid_argument ||
                        dynamic_cast<const UsageError*>(&error) != nullptr;
  if (!is_usage || !LocalRanks::started_this_process()) print_error(error);
  if (verbose)
    std::cerr << "noticed at " << error.where().file_name() << ":" << error.where().line() << '\n';
  return exit_code_after_stop(is_usage ? kExitUsage : kExitFailed);
}

/// An error that no command has named more closely.
Error error_of(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr && (system->code() == std::errc::resource_unavailable_try_again ||
                            system->code() == std::errc::not_enough_memory))
    return no_more_threads();
  // LibTorch's allocator and the loader of libraries have no type for it.
  const std::string_view text = error.what();
  for (const char* word : {"allocate memory", "map segment"})
    if (text.find(word) != text.npos) return not_enough_memory();
  // Behind its message LibTorch has a list of functions.
  return Error(ErrorCode::internal, std::string(text.substr(0, text.find("\nException raised"))),
               "internal");
}

}  // namespace

std::vector<std::string> with_command(std::vector<std::string> words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h") return {"help"};
  if (words.front() == "--version" || words.front() == "-V") {
    words.front() = "version";
  } else if (words.front() == "--" || names_pictures(words.front())) {
    words.insert(words.begin(), "classify");
  }
  return words;
}

std::variant<int, AskedCommand> answer_or_parse(std::span<const std::string> words) {
  const CommandSpec& command = command_named(words.front(), "hydrascope");
  words = words.subspan(1);
  ParsedOptions options = parse_words(command, words);
  GeneralRequest asked;
  options.fill(asked);
  if (asked.help || asked.usage) {
    const CommandSpec spec = of_words(command, options.positionals());
    std::cout << (command.name == "help" ? overview_text(command_specs(), output_columns())
                  : asked.help           ? help_text(spec, output_columns())
                                         : brief_help_text(spec, output_columns()));
    return kExitOk;
  }
  if (asked.dump_config) {
    std::cout << with_config(command, std::move(options)).dump_config();
    return kExitOk;
  }
  if (command.name == "help") return print_help(options);
  if (command.name == "version") {
    std::cout << "hydrascope " << kVersion << " (" << kCommit << ", " << kBuildType << ", "
              << kCompiler << ")\n";
    return kExitOk;
  }
  if (command.name == "completion") return print_completion(options);
  return AskedCommand{&command, std::move(options)};
}

int guarded(std::span<const std::string> words, const std::function<int()>& run) {
  // The first file that is opened would get the number of a stream that is closed, the lowest one, and what is
  // meant for the screen. An error that nobody hears is no error, but writing results that nobody gets has to fail.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) < 0) static_cast<void>(::open("/", O_RDONLY));
  }
  // A file that reaches the limit on sizes of files then fails like one on a full disk; the signal
  // would end the process without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  std::cout.rdbuf(new AtomicWrites(STDOUT_FILENO));  // for good: the last flush is the very end
  const bool verbose = std::ranges::any_of(
      words, [](const std::string& word) { return word == "-v" || word == "--verbose"; });
  try {
    const int code = run();
    OutputFile("-").close();
    return code;
  } catch (const Error& error) {
    std::cout.flush();
    return report(error, verbose);
  } catch (const std::bad_alloc&) {
    return report(not_enough_memory(), verbose);
  } catch (const std::exception& error) {
    std::cout.flush();
    return report(error_of(error), verbose);
  }
}

}  // namespace hydrascope::app
