// Completion for bash, zsh and fish: their scripts ask the program what the word at the cursor may
// become, and the tables of options answer.
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/run/usage_error.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// The line that stands for the files there are.
constexpr std::string_view kFilesLine = "<files>";

// `hydrascope complete-word` gets the words before the cursor without the program's name, the one at
// the cursor last.

constexpr std::string_view kBash =
    R"(# bash completion of hydrascope: source <(hydrascope completion bash)
_hydrascope() {
  local current=${COMP_WORDS[COMP_CWORD]} line
  [[ $current == = ]] && current=''
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == '<files>' ]]; then
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      # Quotes slashes and blanks; readline looks itself where an open quote hides the name from compgen.
      compopt -o filenames -o default 2>/dev/null
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]/#\~/$HOME}" complete-word "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  return 0
}
complete -F _hydrascope hydrascope
)";

constexpr std::string_view kZsh = R"zsh(#compdef hydrascope
# zsh completion of hydrascope: source <(hydrascope completion zsh), or a file _hydrascope in
# a folder of $fpath.
_hydrascope() {
  local -a found
  local line
  local answer="$(${words[1]/#\~/$HOME} complete-word "${(@)words[2,CURRENT]}" 2>/dev/null)"
  [[ $PREFIX == --*=* ]] && compset -P '*='
  for line in "${(@f)answer}"; do
    if [[ $line == '<files>' ]]; then
      _files
      return
    fi
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe -t words 'hydrascope' found
}
if [[ $funcstack[1] == _hydrascope ]]; then
  _hydrascope "$@"
else
  compdef _hydrascope hydrascope
fi
)zsh";

constexpr std::string_view kFish =
    R"(# fish completion of hydrascope: hydrascope completion fish | source
function __hydrascope_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l before (string match -r '^--[^=]*=' -- "$current")
    for line in ($words[1] complete-word $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = '<files>'
            __fish_complete_path (string replace -- "$before" '' "$current") | string replace -r '^' "$before"
        else
            echo "$before$line"
        end
    end
end
complete -c hydrascope -e
complete -c hydrascope -f -a '(__hydrascope_complete)'
)";

constexpr std::array kScripts{std::pair{"bash", kBash}, std::pair{"zsh", kZsh},
                              std::pair{"fish", kFish}};

/// The words of a command line; bash splits "--format=j" into "--format", "=" and "j".
std::vector<std::string> rejoined(std::span<const std::string> split) {
  std::vector<std::string> words;
  bool is_open = false;
  for (const std::string& word : split) {
    const bool joins = word == "=" && !words.empty() && words.back().starts_with("--");
    if (joins || is_open)
      words.back() += word;
    else
      words.push_back(word);
    is_open = joins;
  }
  return words;
}

/// The option that `word`, which stands alone, needs a value for.
const Option* option_without_value(const CommandSpec& command, std::string_view word) {
  const OptionMatch match = word.starts_with("--") ? find_option(command, word.substr(2))
                            : word.size() == 2 && word[0] == '-'
                                ? find_short_option(command, word[1])
                                : OptionMatch{};
  return match && !match.stands_alone() ? match.option : nullptr;
}

/// The possible continuations that begin with the text that is there.
class Candidates {
 public:
  explicit Candidates(std::string begin) : begin_(std::move(begin)) {}
  void add(const std::string& word, std::string_view help = {}) {
    if (word.starts_with(begin_)) lines.push_back(word + "\t" + std::string(help));
  }
  void add_names(const CommandSpec& command) {
    add(command.name, command.summary);
    for (const std::string& alias : command.aliases) add(alias, command.summary);
  }
  /// Names, and the aliases that are more than another name.
  void add_options(const CommandSpec& command) {
    for (const Option& option : command.options) {
      add("--" + option.name, brief(option));
      for (const OptionAlias& alias : option.aliases)
        if (!alias.implied.empty())
          add("--" + alias.name, "--" + option.name + " " + alias.implied);
    }
  }
  void add_values(const Option& option) {
    if (option.completes_files) lines.emplace_back(kFilesLine);
    for (const std::string& word : option.choices.empty() ? option.suggestions : option.choices)
      if (!option.completes_files) add(word);
  }

  std::vector<std::string> lines;

 private:
  std::string begin_;
};

}  // namespace

std::vector<std::string> completions(std::span<const CommandSpec> all,
                                     std::span<const std::string> split) {
  std::vector<std::string> words = rejoined(split);
  std::string current = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  Candidates candidates(current);
  if (words.empty()) {
    for (const CommandSpec& command : all) candidates.add_names(command);
    return candidates.lines;
  }
  const auto found = std::ranges::find_if(all, [&](const CommandSpec& command) {
    return command.name == words[0] || std::ranges::count(command.aliases, words[0]) > 0;
  });
  if (found == all.end()) return {};
  CommandSpec command = shown(*found);
  const bool names_subcommand = !command.subcommands.empty() && words.size() == 1;
  if (words.size() > 1 && std::ranges::count(subcommand_names(command), words[1]) > 0)
    command = subcommand_spec(command, words[1]);
  const bool has_options = std::ranges::count(words, "--") == 0;
  const std::size_t equals = current.starts_with("--") ? current.find('=') : std::string::npos;
  if (has_options && equals != std::string::npos) {
    Candidates values(current.substr(equals + 1));
    if (const Option* option = option_without_value(command, current.substr(0, equals)))
      values.add_values(*option);
    return values.lines;
  }
  const Option* option = has_options ? option_without_value(command, words.back()) : nullptr;
  if (option != nullptr) {
    candidates.add_values(*option);
  } else if (has_options && current.starts_with('-')) {
    candidates.add_options(command);
  } else if (names_subcommand) {
    for (const Subcommand& one : command.subcommands) candidates.add(one.name, one.summary);
  } else if (!command.positionals.empty()) {
    candidates.lines.emplace_back(kFilesLine);
  }
  return candidates.lines;
}

std::string completion_script(std::string_view shell) {
  std::vector<std::string> shells;
  for (const auto& [name, script] : kScripts) {
    if (name == shell) return std::string(script);
    shells.emplace_back(name);
  }
  const std::string near = nearest(shell, shells);
  throw UsageError(
      "expected " + join_words(shells, ", ", " or ") + ", found '" + std::string(shell) + "'",
      "completion", near.empty() ? "" : "did you mean " + near + "?");
}

}  // namespace hydrascope::app
