// Help and overview, both from the table of options.
#include "app/options/option_table.h"
#include "app/options/options.h"
#include "kernels/error.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {
namespace {

constexpr std::size_t kProgramIndent = 2;
constexpr std::size_t kDescriptionColumn = 30;
constexpr std::size_t kNarrowest = 50;

std::size_t usable(int columns) {
  return std::max(kNarrowest, static_cast<std::size_t>(std::max(columns, 0)));
}

/// Appends the words of `text` to `out`, which stands at `column`, breaking lines before `width`
/// and starting new ones at `indent`. Ends the last line.
void append_wrapped(std::string& out, std::string_view text, std::size_t column, std::size_t indent,
                    std::size_t width) {
  bool at_start = true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    if (!at_start && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!at_start) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at_start = false;
  }
  out += '\n';
}

/// The text behind the option's name: its placeholder, else its choices, else what the kind suggests.
std::string value_label(const Option& option) {
  if (option.kind == ValueKind::flag) return {};
  if (!option.placeholder.empty()) return option.placeholder;
  if (!option.choices.empty()) return join_words(option.choices, "|", "|");
  return option.kind == ValueKind::text ? "TEXT" : "N";
}

std::string option_label(const Option& option) {
  std::string label = option.short_name != '\0' ? std::string{'-', option.short_name, ',', ' '}
                                                : std::string(4, ' ');
  label += "--" + option.name;
  if (const std::string value = value_label(option); !value.empty()) label += " " + value;
  return label;
}

enum class Detail { brief, all };

/// "(default: auto; also --dtype; --fp16 = float16)", or "".
std::string option_notes(const Option& option, Detail detail) {
  std::vector<std::string> notes;
  if (detail == Detail::all && !option.subcommands.empty())
    notes.push_back("of " + join_words(option.subcommands, ", ", " and "));
  if (!option.choices.empty() && !option.placeholder.empty()) {
    notes.push_back(join_words(option.choices, ", ", ", "));
  }
  if (detail == Detail::all && option.repeatable) notes.emplace_back("repeatable");
  if (detail == Detail::all && option.comma_list) notes.emplace_back("comma list");
  if (!option.default_value.empty()) {
    notes.push_back("default: " + option.default_value);
  } else if (!option.default_note.empty()) {
    notes.push_back("default: " + option.default_note);
  }
  std::vector<std::string> also;
  for (const OptionAlias& alias : option.aliases) {
    if (detail == Detail::all && alias.implied.empty()) also.push_back("--" + alias.name);
  }
  if (!also.empty()) notes.push_back("also " + join_words(also, ", ", ", "));
  for (const OptionAlias& alias : option.aliases) {
    if (detail == Detail::all && !alias.implied.empty())
      notes.push_back("--" + alias.name + " = " + alias.implied);
  }
  return notes.empty() ? "" : "(" + join_words(notes, "; ", "; ") + ")";
}

std::string option_description(const Option& option, Detail detail = Detail::all) {
  const std::string notes = option_notes(option, detail);
  const std::string help = detail == Detail::all ? option.help : std::string(brief(option));
  return notes.empty() || help.empty() ? help + notes : help + " " + notes;
}

std::string usage(const CommandSpec& command) {
  std::string line = "hydrascope " + command.name;
  if (!command.subcommands.empty()) line += " " + join_words(subcommand_names(command), "|", "|");
  if (!command.options.empty()) line += " [OPTIONS]";
  if (!command.positionals.empty()) line += " " + command.positionals;
  return line;
}

std::string heading(const Option& option) {
  return option.group.empty() ? "Options" : option.group;
}

/// Headings in the order of their first option.
std::vector<std::string> headings(std::span<const Option> options) {
  std::vector<std::string> result;
  for (const Option& option : options) {
    if (std::ranges::find(result, heading(option)) == result.end()) {
      result.push_back(heading(option));
    }
  }
  return result;
}

/// Name, then description at `column`.
void append_entry(std::string& out, const std::string& label, const std::string& description,
                  std::size_t width, std::size_t column = kDescriptionColumn) {
  std::string line(kProgramIndent, ' ');
  line += label;
  if (description.empty()) {
    out += line + "\n";
    return;
  }
  // A name that is too long pushes the first line of its description to the right.
  line.resize(std::max(column, line.size() + 2), ' ');
  const std::size_t first = description.find(' ');
  if (line.size() + std::min(first, description.size()) > width) {
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    line.assign(column, ' ');
  }
  out += line;
  append_wrapped(out, description, line.size(), column, width);
}

bool is_named_alone(const Option& option, const CommandSpec& command) {
  return option.group == kGeneral && command.name != "help";
}

void append_options(std::string& out, const CommandSpec& command, std::size_t width) {
  std::vector<Option> options = command.options;
  std::erase_if(options, [&](const Option& option) { return is_named_alone(option, command); });
  for (const std::string& title : headings(options)) {
    out += "\n" + title + ":\n";
    for (const Option& option : options)
      if (heading(option) == title)
        append_entry(out, option_label(option), option_description(option), width);
  }
}

/// The general options: "--config FILE.json".
void append_named(std::string& out, const CommandSpec& command, std::size_t width) {
  std::string named;
  for (const Option& option : command.options) {
    if (!is_named_alone(option, command)) continue;
    std::string name = option_label(option);
    name.erase(0, name.find_first_not_of(' '));
    named += (named.empty() ? "" : ", ") + name;
  }
  if (named.empty()) return;
  out += "\nAs `hydrascope help help` explains:\n  ";
  append_wrapped(out, named, kProgramIndent, kProgramIndent, width);
}

/// "usage: ...", what the command does, its other names.
std::string help_head(const CommandSpec& command, std::size_t width) {
  constexpr std::string_view kUsage = "usage: ";
  std::string out(kUsage);
  append_wrapped(out, usage(command), kUsage.size(), kUsage.size(), width);
  out += '\n';
  append_wrapped(out, command.summary, 0, 0, width);
  return out;
}

void append_subcommands(std::string& out, const CommandSpec& command, std::size_t width) {
  if (command.subcommands.empty()) return;
  out += "\nSubcommands:\n";
  for (const Subcommand& subcommand : command.subcommands) {
    std::string label = subcommand.name;
    if (!subcommand.positionals.empty()) label += " " + subcommand.positionals;
    append_entry(out, label, subcommand.summary, width);
  }
}

void append_examples(std::string& out, const CommandSpec& command, std::size_t most) {
  if (command.examples.empty()) return;
  out += "\nExamples:\n";
  for (std::size_t i = 0; i < std::min(most, command.examples.size()); ++i)
    out += "  " + command.examples[i] + "\n";
}

std::string command_label(const CommandSpec& command) {
  return command.aliases.empty()
             ? command.name
             : command.name + " (" + join_words(command.aliases, ", ", ", ") + ")";
}

}  // namespace

std::string help_text(const CommandSpec& whole, int columns) {
  const CommandSpec command = shown(whole);
  const std::size_t width = usable(columns);
  std::string out = help_head(command, width);
  if (!command.aliases.empty()) {
    append_wrapped(out, "Also: hydrascope " + join_words(command.aliases, ", ", ", "), 0, 0, width);
  }
  append_subcommands(out, command, width);
  append_options(out, command, width);
  append_named(out, command, width);
  append_examples(out, command, command.examples.size());
  return out;
}

std::string brief_help_text(const CommandSpec& command, int columns) {
  constexpr std::size_t kExamples = 4;
  const std::size_t width = usable(columns);
  std::string out = help_head(command, width);
  append_subcommands(out, command, width);
  if (!command.common.empty()) out += "\nCommon options:\n";
  for (const Field& field : command.common) {
    const Option* option = find_option(command, field);
    if (option == nullptr) throw Error(ErrorCode::internal, "no such option", command.name);
    append_entry(out, option_label(*option), option_description(*option, Detail::brief), width);
  }
  append_examples(out, command, kExamples);
  return out + "\nAll options: hydrascope " + command.name + " --help\n";
}

std::string overview_text(std::span<const CommandSpec> commands, int columns) {
  const std::size_t width = usable(columns);
  std::string out;
  append_wrapped(out,
                 "hydrascope classifies pictures of any size with vision transformers, shows what "
                 "they looked at, and gives them attention whose cost grows with the pixels, not "
                 "with their square.",
                 0, 0, width);
  out +=
      "\nusage: hydrascope COMMAND [OPTIONS] [INPUT...]\n"
      "       hydrascope PICTURE...            as hydrascope classify\n";
  std::vector<std::string> groups;
  for (const CommandSpec& command : commands) {
    if (std::ranges::find(groups, command.group) == groups.end()) groups.push_back(command.group);
  }
  for (const std::string& group : groups) {
    out += "\n" + (group.empty() ? "Commands" : group) + ":\n";
    for (const CommandSpec& command : commands) {
      if (command.group == group) append_entry(out, command_label(command), command.summary, width);
    }
  }
  out +=
      "\nExample:\n"
      "  hydrascope visualize photo.jpg       heatmaps/photo.heatmap.png\n\n";
  append_wrapped(out, "hydrascope COMMAND -h shows the common options of a command, --help all.", 0,
                 0, width);
  return out;
}

}  // namespace hydrascope::app
