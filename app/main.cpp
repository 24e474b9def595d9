// hydrascope COMMAND [OPTIONS] [INPUT...]: dispatch, and errors -> exit codes.
#include "app/command.h"
#include "app/console.h"
#include "app/local_ranks.h"
#include "app/signal_stop.h"
#include "app/torchelastic.h"
#include "app/waiting_threads.h"
#include "kernels/error.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <malloc.h>
#include <new>

namespace hydrascope::app {
namespace {

/// Activations of a batch are tens of megabytes: glibc would map and unmap them in every layer, and
/// the kernel would clear the pages each time. Kept in the heap they are reused.
void keep_large_blocks() {
  constexpr int kNeverMap = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNeverMap);
  mallopt(M_TRIM_THRESHOLD, kNeverMap);
}

int report(const Error& error, bool verbose) {
  const bool is_usage = error.code() == ErrorCode::invalid_argument;
  if (!is_usage || !LocalRanks::started_this_process()) print_error(error);
  report_to_torchelastic(error_text(error));
  if (verbose)
    std::cerr << "noticed at " << error.where().file_name() << ":" << error.where().line() << '\n';
  return exit_code_after_stop(is_usage ? kExitUsage : kExitFailed);
}

int run(std::vector<std::string> words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h")
    words.insert(words.begin(), "help");
  if (words.front() == "--version" || words.front() == "-V") words.front() = "version";
  // `hydrascope help --help` and the like: what follows a leading --help is dropped.
  if (words.front() == "help" && words.size() > 1 && (words[1] == "--help" || words[1] == "-h"))
    words.resize(1);
  const Command* command = find_command(words.front());
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const CommandSpec& spec : command_specs()) {
      names.push_back(spec.name);
      names.insert(names.end(), spec.aliases.begin(), spec.aliases.end());
    }
    const std::string near = nearest(words.front(), names);
    throw Error(
        ErrorCode::invalid_argument, "unknown command '" + words.front() + "'", "hydrascope",
        near.empty() ? "`hydrascope help` lists the commands" : "did you mean " + near + "?");
  }
  words.erase(words.begin());
  const ParsedOptions options = parse(command->spec, words);
  if (options.flag("help")) {
    std::cout << help_text(command->spec);
    return kExitOk;
  }
  return command->run(options);
}

int guarded_main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool verbose = std::ranges::any_of(
      words, [](const std::string& word) { return word == "-v" || word == "--verbose"; });
  try {
    const int code = run(words);
    std::cout.flush();
    if (code == kExitSomeInputsFailed) report_to_torchelastic("finished, but some inputs failed");
    if (code == kExitCheckFailed) report_to_torchelastic("a check failed");
    if (code == kExitFailed) report_to_torchelastic("failed, as its messages say");
    return code;
  } catch (const Error& error) {
    std::cout.flush();
    return report(error, verbose);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorCode::out_of_memory, "not enough memory"), verbose);
  } catch (const std::exception& error) {
    std::cout.flush();
    return report(Error(ErrorCode::internal, error.what(), "internal"), verbose);
  }
}

bool trains(int argc, char** argv) {
  if (argc < 2) return false;
  const Command* command = find_command(argv[1]);
  return command != nullptr && (command->spec.name == "train" || command->spec.name == "convert");
}

}  // namespace
}  // namespace hydrascope::app

int main(int argc, char** argv) {
  // Commands whose loaders work beside the model all the time.
  if (hydrascope::app::trains(argc, argv)) hydrascope::app::wait_briefly_for_threads();
  hydrascope::app::keep_large_blocks();
  hydrascope::app::install_signal_handlers();
  return hydrascope::app::guarded_main(argc, argv);
}
