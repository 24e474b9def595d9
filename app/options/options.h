// The command line, declared once: a table of options per command yields parsing, --help, shell
// completion, the man page, the keys of --config files and --dump-config. This is the one place
// that knows cxxopts and its habits (docs in options.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

enum class ValueKind { flag, text, integer, number };

/// The part of an option in a run. A recipe holds tasks, models, sources and steps; a run that goes on
/// must have the same tasks and models (`is_recorded`, `is_kept_by_a_run`).
enum class Role {
  undecided,  ///< in no table
  task,       ///< decides what is learned or answered
  model,      ///< decides what the model computes
  source,     ///< names weights, classes or a transform, which are known by their content
  step,       ///< decides how work is cut into steps, or when it ends
  speed,      ///< chooses and shares the machine
  place,      ///< names files and folders to write, and their form
  report,     ///< measures a result
  console,    ///< chooses messages and exit codes
};
/// Whether a recipe holds options of that role.
constexpr bool is_recorded(Role role) {
  return role == Role::task || role == Role::model || role == Role::source || role == Role::step;
}
/// Whether a run that goes on must have the same value.
constexpr bool is_kept_by_a_run(Role role) { return role == Role::task || role == Role::model; }

/// Another spelling of an option; `implied` is the value it stands for ("--fp16" -> "float16").
struct OptionAlias {
  std::string name;
  std::string implied = {};
};

/// One option. Names are written with '-'; on the command line '_' works too.
struct Option {
  std::string name;        ///< "img-size"
  char short_name = '\0';  ///< 'm' or none
  ValueKind kind = ValueKind::text;
  std::string placeholder = {};  ///< "N|HxW", shown in help
  /// One sentence, lower case, no full stop, which says everything where it stands alone. What
  /// follows its first "; " is for --help: -h and completion leave it out.
  std::string help = {};
  std::string default_value = {};  ///< "" = not set
  std::string default_note = {};   ///< without a default value, what happens: "chosen by size"
  std::vector<std::string> choices = {};             ///< a closed set of words; empty = any
  std::map<std::string, std::string> synonyms = {};  ///< other words for some of them
  std::vector<OptionAlias> aliases = {};
  std::vector<std::string> former = {};  ///< earlier names, which an error leads here from
  int values = 1;  ///< > 1: that many space- or comma-separated values ("--mean .485 .456 .406")
  bool comma_list = false;  ///< any number of values, comma-separated ("--batch-size 1,8,32")
  bool repeatable = false;  ///< may be given several times, values are kept in order
  std::optional<double> minimum = {};  ///< smallest number accepted
  std::optional<double> maximum = {};  ///< largest number accepted
  std::string group = {};              ///< heading in --help ("Model", "Input", ...)
  Role role = Role::undecided;
  bool completes_files = false;               ///< shell completion offers files
  bool is_written = false;                    ///< its values name files or folders to write
  std::vector<std::string> suggestions = {};  ///< or these words, of an open set
  bool hidden = false;  ///< it makes no sense here: help and completion do not show it
  std::vector<std::string> subcommands = {};  ///< those that take it; empty = all
  /// The command whose --help explains it ("train", "help"), where this one's names it alone.
  std::string explained_by = {};
};

/// What the first positional of a command may be: `models list`.
struct Subcommand {
  std::string name;
  std::string summary = {};
  std::string positionals = {};  ///< after it: "[NAME]"; "" = none are accepted
};

struct CommandSpec {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string summary;  ///< one line for the list of commands
  /// "[INPUT...]"; "" = none are accepted. With subcommands each has its own.
  std::string positionals = {};
  std::vector<Option> options = {};
  std::vector<std::string> examples = {};    ///< complete command lines
  std::vector<Subcommand> subcommands = {};  ///< empty = none
  std::string group = {};                    ///< heading in the overview
  std::vector<std::string> common = {};      ///< names of the options that -h shows, in that order
};

enum class Source { default_value, config_file, command_line };

/// What `parse` does about the file of --config.
enum class ConfigFile { read, left_alone };

/// The outcome of parsing. Asking for a name that the command does not declare is a programming
/// error (Error(internal)).
class ParsedOptions {
 public:
  /// Whether the command has that option; the same, and it takes one value.
  [[nodiscard]] bool declares(std::string_view name) const { return entries_.contains(name); }
  [[nodiscard]] bool takes_one_value(std::string_view name) const;
  /// True when the user gave it, by flag or config file.
  [[nodiscard]] bool given(std::string_view name) const;
  [[nodiscard]] Source source(std::string_view name) const;
  /// The spelling used ("`imgsz`", "`fp16`"), or the file's name ("config.json"): for messages that
  /// say where a value came from. "`img_size`" if it is a default.
  [[nodiscard]] std::string origin(std::string_view name) const;

  /// Of an option that is no flag: Error(internal).
  [[nodiscard]] bool flag(std::string_view name) const;
  /// The value as written; "" when unset. Of an option that may hold several: Error(internal).
  [[nodiscard]] const std::string& text(std::string_view name) const;
  /// Also of a text option that turned out to hold a number; Error(invalid_argument) if it does
  /// not, Error(internal) when unset.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  /// All values of a repeatable, multi-valued or any other option; empty when unset.
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view name) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view name) const;
  /// Everything that is no option, as given, commas and bytes untouched.
  [[nodiscard]] const std::vector<std::string>& positionals() const noexcept {
    return positionals_;
  }

  /// The resolved options as the JSON object that --config reads back (--dump-config): every option
  /// that has a value, defaults included, except input, config, dump-config and help. JSON holds no
  /// bytes that are not UTF-8: Error(invalid_argument) naming the option.
  [[nodiscard]] std::string dump_config() const;

  struct Entry {
    Option option;
    std::vector<std::string> values;
    Source source = Source::default_value;
    std::string spelling = {};  ///< the alias that set it, or its name
  };
  /// By name, every option that the command has.
  [[nodiscard]] const std::map<std::string, Entry, std::less<>>& entries() const noexcept {
    return entries_;
  }

 private:
  friend ParsedOptions parse(const CommandSpec&, std::span<const std::string>, ConfigFile);
  [[nodiscard]] const Entry& entry(std::string_view name) const;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> positionals_;
  std::string config_file_;
};

/// Parses what follows the command's name. Values are checked here: numbers are consumed whole and
/// in range, choices are members, an empty value is none. If the command declares an option
/// "config" and it is given, that JSON file is read first (keys = option names, '_' or '-'; unknown
/// keys are errors); flags win. Throws Error(invalid_argument) with the nearest name as hint. A
/// first positional that is no subcommand is an error; that there is none is for the command to
/// judge.
ParsedOptions parse(const CommandSpec& command, std::span<const std::string> arguments,
                    ConfigFile config = ConfigFile::read);

/// Consumes all of `word` or throws Error(invalid_argument) with `subject` ("--crop-pct"). Decimal,
/// a leading '+' is fine, infinities and NaN are not numbers.
std::int64_t to_integer(std::string_view word, std::string_view subject);
double to_number(std::string_view word, std::string_view subject);

/// Text of `hydrascope help COMMAND`, every option, wrapped to `columns`.
std::string help_text(const CommandSpec& command, int columns = 100);
/// Text of `hydrascope COMMAND -h`: the common options and the first examples.
std::string brief_help_text(const CommandSpec& command, int columns = 100);
/// Text of `hydrascope help`.
std::string overview_text(std::span<const CommandSpec> commands, int columns = 100);
/// What the word at the cursor may become, a line each: the word, a tab, what it means; "<files>"
/// where any file may stand. `words` are those before the cursor, without the program's name, and the
/// one at the cursor.
std::vector<std::string> completions(std::span<const CommandSpec> commands,
                                     std::span<const std::string> words);
/// The script for "bash", "zsh" or "fish", which asks `hydrascope complete-word` for these lines;
/// throws Error(invalid_argument) otherwise.
std::string completion_script(std::string_view shell);
/// troff man page (section 1) of all commands, for `hydrascope help --man`.
std::string man_page(std::span<const CommandSpec> commands, std::string_view version);

// Groups of options that several commands share, each as the contract spells it. What a group
// holds stands in shared_options.cpp.
std::vector<Option> model_options();
std::vector<Option> new_head_options();  // num-classes, reset-head: where models are made
std::vector<Option> input_options();
std::vector<Option> preprocessing_options();
std::vector<Option> views_options();
std::vector<Option> runtime_options();
std::vector<Option> precision_check_options();  // check-precision
std::vector<Option> launch_options();
std::vector<Option> output_options();         // of a report
std::vector<Option> record_output_options();  // of a stream of records, which is no page
std::vector<Option> label_options();
std::vector<Option> general_options();
/// Concatenates groups; throws Error(internal) for a name, alias or short name declared twice.
std::vector<Option> join(std::initializer_list<std::vector<Option>> groups);

}  // namespace hydrascope::app
