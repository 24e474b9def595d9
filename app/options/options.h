// The command line, declared once: a table of options per command yields parsing, --help, the keys of
// --config files and --dump-config, and the words that a test finds in assets/completion. This is the
// one place that knows cxxopts and its habits (docs in options.cpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
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

/// A field of a request, `&RunRequest::device`. A row of a table says which field its option fills, and
/// code names the option by that field: the option's name stands in the row alone.
class Field {
 public:
  Field() = default;
  template <class Request, class Value>
  Field(Value Request::*member)
      : request_(&typeid(Request)), place_(std::bit_cast<std::ptrdiff_t>(member)) {}

  explicit operator bool() const { return request_ != nullptr; }
  [[nodiscard]] bool is_of(const std::type_info& request) const {
    return request_ != nullptr && *request_ == request;
  }
  friend bool operator==(const Field& one, const Field& other) {
    return one.place_ == other.place_ && one.request_ != nullptr && other.request_ != nullptr &&
           *one.request_ == *other.request_;
  }

 private:
  const std::type_info* request_ = nullptr;
  std::ptrdiff_t place_ = 0;
};

/// The group that `hydrascope help --help` explains and the help of a command names alone.
inline constexpr const char* kGeneral = "General";

struct GivenOption;
struct Setting;

/// Another spelling of an option; `implied` is the value it stands for ("--fp16" -> "float16").
struct OptionAlias {
  std::string name;
  std::string implied = {};
  /// A value of this spelling is another answer to the option's question: a stronger source does not replace one
  /// spelling's value by the other's, and two different values are refused.
  bool is_rival = false;
};

/// One option. Names are written with '-'; on the command line '_' works too.
struct Option {
  std::string name;        ///< "img-size"
  std::string key = {};    ///< "model.overview": no option of its own, but a key of --set
  char short_name = '\0';  ///< 'm' or none
  ValueKind kind = ValueKind::text;
  std::string placeholder = {};  ///< "N|HxW", shown in help
  /// One sentence, lower case, no full stop, which says everything where it stands alone. The
  /// text behind its first "; " is for --help: -h and completion leave it out.
  std::string help = {};
  std::string default_value = {};  ///< "" = not set
  std::string default_note = {};   ///< without a default value, what happens: "chosen by size"
  std::vector<std::string> choices = {};             ///< a closed set of words; empty = any
  std::map<std::string, std::string> synonyms = {};  ///< other words for some of them
  std::vector<OptionAlias> aliases = {};
  int values =
      1;  ///< > 1: that many space- or comma-separated values ("--set mean=.485,.456,.406")
  bool comma_list = false;  ///< any number of values, comma-separated ("--batch-size 1,8,32")
  bool repeatable = false;  ///< may be given several times, values are kept in order
  std::optional<double> minimum = {};  ///< smallest number accepted
  std::optional<double> maximum = {};  ///< largest number accepted
  std::string group = {};              ///< heading in --help ("Model", "Input", ...)
  Role role = Role::undecided;
  bool completes_files = false;  ///< shell completion offers files
  bool is_read = false;          ///< its values name files that must be there
  bool is_written = false;       ///< its values name files or folders to write
  bool hidden = false;           ///< it makes no sense here: help and completion do not show it
  std::vector<std::string> subcommands = {};  ///< those that take it; empty = all
  bool is_argument = false;  ///< its values are positionals, which no dumped configuration holds
  Field field = {};          ///< what it fills in a request
  /// Fills the field of the request at that address; empty where the request's own function does.
  std::function<void(void*, const GivenOption&)> fill = {};

  [[nodiscard]] bool may_hold_several() const { return values > 1 || comma_list || repeatable; }
};

/// A word that the first positional of a command may be: `models list`.
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
  std::vector<std::string> examples = {};     ///< complete command lines
  std::vector<Subcommand> subcommands = {};   ///< empty = none
  std::string group = {};                     ///< heading in the overview
  std::vector<Field> common = {};             ///< of the options that -h shows, in that order
  std::string program = "hydrascope-engine";  ///< that runs it; the other one is hydrascope-trainer
};

/// The questions that the tables answer by themselves. The fields steer the reading and writing of configurations, so
/// no configuration holds them.
struct GeneralRequest {
  std::string config = {};  ///< a file
  bool dump_config = false;
  bool usage = false;
  bool help = false;
};

enum class Source { default_value, config_file, command_line };

/// `--set KEY=VALUE`, whose values the rows with a key get.
struct SettingsRequest {
  std::vector<std::string> words = {};
};

/// A value, and what the user set it by: "`imgsz`", "config.json".
template <class Value>
struct Asked {
  Value value{};
  std::string origin;
};

/// An option of a command with its values.
struct GivenOption {
  Option option;
  std::vector<std::string> values = {};  ///< all of them, empty when unset
  Source source = Source::default_value;
  /// The spelling used ("`imgsz`", "`fp16`"), or the file's name ("config.json"): for messages that
  /// say where a value came from. "`img_size`" if it is a default.
  std::string origin = {};

  /// True when the user gave it, by flag or config file.
  [[nodiscard]] bool given() const { return source != Source::default_value; }
  [[nodiscard]] bool holds_one() const { return !option.may_hold_several(); }
  /// Whether it holds one value, which is `word`.
  [[nodiscard]] bool is(std::string_view word) const { return holds_one() && text() == word; }
  /// Error(internal) for an option that is no flag.
  [[nodiscard]] bool flag() const;
  /// The value as written; "" when unset. Error(internal) for an option that may hold several.
  [[nodiscard]] const std::string& text() const;
  /// Also of a text option that turned out to hold a number; Error(invalid_argument) if it does
  /// not, Error(internal) when unset.
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::vector<std::int64_t> integers() const;
  [[nodiscard]] std::vector<double> numbers() const;
};

/// The outcome of parsing.
class ParsedOptions {
 public:
  /// The option that fills `field`, which the command has: else Error(internal), a programming error.
  const GivenOption& operator[](const Field& field) const;
  /// The same; nullptr where the command has none.
  [[nodiscard]] const GivenOption* find(const Field& field) const;
  /// Whether the command has it and the user gave it; whether it holds one value, which is `word`.
  [[nodiscard]] bool given(const Field& field) const;
  [[nodiscard]] bool is(const Field& field, std::string_view word) const;
  /// Fills the fields of these requests that the command has options for.
  template <class... Requests>
  void fill(Requests&... requests) const {
    (fill_fields(typeid(Requests), &requests), ...);
  }
  /// By a name that is no code's: of a recipe, a file or a test. Error(internal) as above.
  [[nodiscard]] const GivenOption& named(std::string_view name) const;
  /// Everything that is no option, as given, commas and bytes untouched.
  [[nodiscard]] const std::vector<std::string>& positionals() const noexcept {
    return positionals_;
  }

  /// The resolved options as the JSON object that --config reads back (--dump-config): every option
  /// that has a value, defaults included, except arguments and those of `GeneralRequest`. JSON holds no
  /// bytes that are not UTF-8: Error(invalid_argument) naming the option.
  [[nodiscard]] std::string dump_config() const;

  /// By name, every option that the command has.
  [[nodiscard]] const std::map<std::string, GivenOption, std::less<>>& entries() const noexcept {
    return entries_;
  }

 private:
  friend ParsedOptions parse_words(const CommandSpec&, std::span<const std::string>);
  friend ParsedOptions with_config(const CommandSpec&, ParsedOptions);
  void add(Setting setting, Source source, const std::string& origin);
  void add_key(const std::string& word, Source source);
  void fill_fields(const std::type_info& request, void* address) const;
  std::map<std::string, GivenOption, std::less<>> entries_;
  std::vector<std::string> positionals_;
};

/// Parses what follows the command's name. Values are checked here: numbers are consumed whole and
/// in range, choices are members, an empty value is none. Throws Error(invalid_argument) with the
/// nearest name as hint. A first positional that is no subcommand is an error; that there is none is
/// for the command to judge. No file is read.
ParsedOptions parse_words(const CommandSpec& command, std::span<const std::string> arguments);
/// `words` of the command, and for options that they do not give the JSON file that its option
/// "config" names, if it does (keys = option names, '_' or '-'; unknown keys are errors). The file
/// may be a pipe, which is read once. Throws Error(invalid_argument).
ParsedOptions with_config(const CommandSpec& command, ParsedOptions words);
/// Both.
ParsedOptions parse(const CommandSpec& command, std::span<const std::string> arguments);

/// Consumes all of `word` or throws Error(invalid_argument) with `subject` ("--topk"). Decimal,
/// a leading '+' is fine, infinities and NaN are not numbers.
std::int64_t to_integer(std::string_view word, std::string_view subject);
double to_number(std::string_view word, std::string_view subject);

/// Text of `hydrascope help COMMAND`, every option, wrapped to `columns`.
std::string help_text(const CommandSpec& command, int columns = 100);
/// Text of `hydrascope COMMAND -h`: the common options and the first examples.
std::string brief_help_text(const CommandSpec& command, int columns = 100);
/// Text of `hydrascope help`.
std::string overview_text(std::span<const CommandSpec> commands, int columns = 100);

// Groups of options that several commands share, each as the contract spells it. The rows of a group
// stand in shared_options.cpp.
std::vector<Option> model_options();
std::vector<Option> class_vector_options();  // classes, depth-steps: where models answer
std::vector<Option> vote_options();          // knn, knn-k, knn-mix
std::vector<Option> new_head_options();      // num-classes, reset-head: where models are made
std::vector<Option> input_options();
std::vector<Option> preprocessing_options();
std::vector<Option> views_options();
/// The same where an answer is of one view.
std::vector<Option> one_view_options();
std::vector<Option> runtime_options();
std::vector<Option> memory_options(const std::string& group);  // memory, memory-opt
/// Without `formats` those of a report.
std::vector<Option> output_options(std::vector<std::string> formats = {});
std::vector<Option> label_options();
std::vector<Option> general_options();
/// -h and --help alone, of commands that print fixed text.
std::vector<Option> help_options();
/// The command with `--set`, if a row of it has a key.
CommandSpec with_settings(CommandSpec command);
/// Concatenates groups; throws Error(internal) for a name, alias or short name declared twice.
std::vector<Option> join(std::initializer_list<std::vector<Option>> groups);

}  // namespace hydrascope::app
