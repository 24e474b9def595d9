// Completion scripts for bash, zsh and fish, from the table of options. All three offer the
// commands, the options of the command at hand, the words of closed sets, and files where files are
// meant.
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "kernels/error.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(from, begin)) != text.npos; begin = at + from.size()) {
    result.append(text.substr(begin, at - begin)).append(to);
  }
  return result.append(text.substr(begin));
}

/// A word for bash and zsh, whatever it holds.
std::string shell_quoted(std::string_view text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

/// A word for fish, where a backslash counts inside quotes too.
std::string fish_quoted(std::string_view text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string words(const std::vector<std::string>& list) { return join_words(list, " ", " "); }

/// Name and aliases of a command.
std::vector<std::string> command_names(const CommandSpec& command) {
  std::vector<std::string> names = {command.name};
  names.insert(names.end(), command.aliases.begin(), command.aliases.end());
  return names;
}

/// Files, or whatever else is no option.
bool takes_arguments(const CommandSpec& command) {
  return !command.positionals.empty() ||
         std::ranges::any_of(command.subcommands, [](const Subcommand& subcommand) {
           return !subcommand.positionals.empty();
         });
}

/// "--precision" and "--dtype", "-d": what may precede a value of the option.
std::vector<std::string> value_spellings(const Option& option) {
  std::vector<std::string> result = {"--" + option.name};
  for (const OptionAlias& alias : option.aliases) {
    if (alias.implied.empty()) result.push_back("--" + alias.name);
  }
  if (option.short_name != '\0') result.push_back({'-', option.short_name});
  return result;
}

/// What "--" is completed to: names, and the aliases that are more than another name.
std::vector<std::string> long_options(const CommandSpec& command) {
  std::vector<std::string> result;
  for (const Option& option : command.options) {
    result.push_back("--" + option.name);
    for (const OptionAlias& alias : option.aliases) {
      if (!alias.implied.empty()) result.push_back("--" + alias.name);
    }
  }
  return result;
}

constexpr std::string_view kBashHead =
    R"(# bash completion of hydrascope: source <(hydrascope completion bash)
_hydrascope_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }
_hydrascope_files() {
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
  # Quotes slashes and blanks; readline looks itself where an open quote hides the name from compgen.
  compopt -o filenames -o default 2>/dev/null
  return 0
}
_hydrascope() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local before='' option options='' values='' arguments='' subcommands='' ended='' i
  COMPREPLY=()
)";

constexpr std::string_view kBashTail = R"(    *) return 0 ;;
  esac
  if [[ $values == '<files>' ]]; then _hydrascope_files "$current"
  elif [[ $values == '<free>' ]]; then return
  elif [[ -n $values ]]; then _hydrascope_words "$values" "$current"
  elif [[ -z $ended && $current == -* ]]; then _hydrascope_words "$options" "$current"
  elif [[ -n $subcommands && $COMP_CWORD -eq 2 ]]; then _hydrascope_words "$subcommands" "$current"
  elif [[ -n $arguments ]]; then _hydrascope_files "$current"
  fi
}
complete -F _hydrascope hydrascope
)";

/// Finds the option whose value is at the cursor: bash splits "--fit=p" into "--fit", "=" and "p".
constexpr std::string_view kBashOption =
    R"(  ((COMP_CWORD > 2)) && before=${COMP_WORDS[COMP_CWORD-2]}
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -- ]] && ended=1
  done
  if [[ $current == = ]]; then option=$previous current=''
  elif [[ $previous == = ]]; then option=$before
  else option=$previous
  fi
  option=${option//_/-}
  [[ -n $ended ]] && option=''
  case ${COMP_WORDS[1]} in
)";

/// The words that may follow an option, as far as they can be listed.
const std::vector<std::string>& value_words(const Option& option) {
  return option.choices.empty() ? option.suggestions : option.choices;
}

std::string bash_values(const Option& option) {
  if (option.completes_files) return "<files>";
  return value_words(option).empty() ? "<free>" : words(value_words(option));
}

std::string bash_script(std::span<const CommandSpec> commands) {
  std::vector<std::string> names;
  for (const CommandSpec& command : commands) {
    for (const std::string& name : command_names(command)) names.push_back(name);
  }
  std::string out(kBashHead);
  out += "  if ((COMP_CWORD == 1)); then\n    _hydrascope_words " + shell_quoted(words(names)) +
         " \"$current\"\n    return\n  fi\n";
  out += kBashOption;
  for (const CommandSpec& command : commands) {
    out += "    " + join_words(command_names(command), "|", "|") + ")\n";
    out += "      options=" + shell_quoted(words(long_options(command))) + "\n";
    if (!command.subcommands.empty()) {
      out += "      subcommands=" + shell_quoted(words(subcommand_names(command))) + "\n";
    }
    if (takes_arguments(command)) out += "      arguments=1\n";
    out += "      case $option in\n";
    for (const Option& option : command.options) {
      if (option.kind == ValueKind::flag) continue;
      out += "        " + join_words(value_spellings(option), "|", "|") +
             ") values=" + shell_quoted(bash_values(option)) + " ;;\n";
    }
    out += "      esac ;;\n";
  }
  return out.append(kBashTail);
}

/// Inside an _arguments specification brackets and colons have a meaning.
std::string zsh_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_action(const Option& option) {
  if (option.kind == ValueKind::flag) return {};
  const std::string what =
      zsh_escaped(option.placeholder.empty() ? option.name : option.placeholder);
  if (option.completes_files) return ":" + what + ":_files";
  if (!value_words(option).empty()) return ":" + what + ":(" + words(value_words(option)) + ")";
  return ":" + what + ": ";
}

/// One specification a spelling: '(--recursive)--recursive[look into ...]', '--fit=[...]:fit:(pad
/// crop)'.
void append_zsh_option(std::string& out, const Option& option) {
  const auto append = [&](const std::string& spelling, const std::string& action) {
    const std::string many = option.repeatable ? "*" : "";
    out += " \\\n        " +
           shell_quoted(many + spelling + "[" + zsh_escaped(brief(option)) + "]" + action);
  };
  const bool takes_value = option.kind != ValueKind::flag;
  append("--" + option.name + (takes_value ? "=" : ""), zsh_action(option));
  if (option.short_name != '\0') {
    append(std::string{'-', option.short_name} + (takes_value ? "+" : ""), zsh_action(option));
  }
  for (const OptionAlias& alias : option.aliases) {
    if (!alias.implied.empty()) append("--" + alias.name, "");
  }
}

std::string zsh_script(std::span<const CommandSpec> commands) {
  std::string out =
      "#compdef hydrascope\n"
      "# zsh completion of hydrascope: source <(hydrascope completion zsh), or a file _hydrascope "
      "in\n"
      "# a folder of $fpath.\n"
      "_hydrascope() {\n"
      "  local -a commands=(\n";
  for (const CommandSpec& command : commands) {
    for (const std::string& name : command_names(command)) {
      out += "    " + shell_quoted(zsh_escaped(name) + ":" + command.summary) + "\n";
    }
  }
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands 'hydrascope command' commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const CommandSpec& command : commands) {
    out += "    " + join_words(command_names(command), "|", "|") + ")\n      _arguments -s -S";
    for (const Option& option : command.options) append_zsh_option(out, option);
    if (!command.subcommands.empty()) {
      out +=
          " \\\n        " + shell_quoted("1:subcommand:(" + words(subcommand_names(command)) + ")");
    }
    if (takes_arguments(command)) out += " \\\n        '*:argument:_files'";
    out += " ;;\n";
  }
  out +=
      "  esac\n"
      "}\n"
      "if [[ $funcstack[1] == _hydrascope ]]; then\n"
      "  _hydrascope \"$@\"\n"
      "else\n"
      "  compdef _hydrascope hydrascope\n"
      "fi\n";
  return out;
}

std::string fish_script(std::span<const CommandSpec> commands) {
  std::string out =
      "# fish completion of hydrascope: hydrascope completion fish | source\n"
      "function __hydrascope_words_before\n"
      "    set -l words (commandline -opc)\n"
      "    test (count $words) -eq $argv[1]\n"
      "end\n"
      "function __hydrascope_command\n"
      "    set -l words (commandline -opc)\n"
      "    test (count $words) -ge 2; and contains -- $words[2] $argv\n"
      "end\n"
      "complete -c hydrascope -e\n"
      "complete -c hydrascope -f\n";
  for (const CommandSpec& command : commands) {
    for (const std::string& name : command_names(command)) {
      out += "complete -c hydrascope -n '__hydrascope_words_before 1' -a " + fish_quoted(name) +
             " -d " + fish_quoted(command.summary) + "\n";
    }
    const std::string here = "__hydrascope_command " + words(command_names(command));
    const std::string start = "complete -c hydrascope -n " + fish_quoted(here);
    if (!command.subcommands.empty()) {
      out += "complete -c hydrascope -n " +
             fish_quoted(here + "; and __hydrascope_words_before 2") + " -a " +
             fish_quoted(words(subcommand_names(command))) + "\n";
    }
    if (takes_arguments(command)) {
      const std::string after =
          command.subcommands.empty() ? "" : "; and not __hydrascope_words_before 2";
      out += "complete -c hydrascope -n " + fish_quoted(here + after) + " -F\n";
    }
    for (const Option& option : command.options) {
      out += start + " -l " + option.name;
      if (option.short_name != '\0') out += std::string(" -s ") + option.short_name;
      if (option.kind != ValueKind::flag) {
        if (option.completes_files) {
          out += " -r -F";
        } else {
          out += " -x";
          if (!value_words(option).empty()) out += " -a " + fish_quoted(words(value_words(option)));
        }
      }
      out += " -d " + fish_quoted(brief(option)) + "\n";
      for (const OptionAlias& alias : option.aliases) {
        if (alias.implied.empty()) continue;
        out += start + " -l " + alias.name + " -d " +
               fish_quoted("--" + option.name + " " + alias.implied) + "\n";
      }
    }
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell, std::span<const CommandSpec> all) {
  const std::vector<CommandSpec> commands = shown(all);
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  const std::string near = nearest(shell, shells);
  throw Error(
      ErrorCode::invalid_argument,
      "expected " + join_words(shells, ", ", " or ") + ", found '" + std::string(shell) + "'",
      "completion", near.empty() ? "" : "did you mean " + near + "?");
}

}  // namespace hydrascope::app
