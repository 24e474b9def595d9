#include "app/run/console.h"

#include "app/run/terminal_text.h"
#include "kernels/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>

namespace hydrascope::app {

Console Console::errors_only() const {
  Console console = *this;
  console.verbose = false;
  console.quiet = true;
  console.progress = false;
  console.heard = {};
  return console;
}

namespace {

/// For programs that start this one.
bool says_json() {
  static const bool asked = [] {
    const char* form = std::getenv("HYDRASCOPE_ERRORS");
    return form != nullptr && std::string_view(form) == "json";
  }();
  return asked;
}

std::atomic<Spelling>& spelling_of_process() {
  static std::atomic<Spelling> spelling = says_json() ? Spelling::names : Spelling::flags;
  return spelling;
}

std::mutex g_settings_mutex;
std::set<std::string, std::less<>> g_settings;  ///< see `spell_as_setting`

/// An error in the form that programs read.
std::string json_line(const Error& error) {
  return printable_json({{"error",
                          {{"code", name(error.code())},
                           {"field", error.field()},
                           {"subject", error.subject()},
                           {"text", error_line(error)},
                           {"hint", spelled(printable(error.hint()))}}}}) +
         '\n';
}

}  // namespace

void Console::note(std::string_view text) const {
  constexpr std::string_view kNote = "note: ";
  const std::string said = printable_lines(spelled(text));
  const bool is_json = says_json() && said.starts_with(kNote);
  if (!quiet)
    std::cerr << (is_json ? printable_json({{"note", said.substr(kNote.size())}}) : said) + '\n';
  if (heard) heard(said);
}

void Console::detail(std::string_view text) const {
  if (verbose) std::cerr << printable_lines(text) << '\n';
}

void spell_as_setting(const std::string& name) {
  const std::scoped_lock lock(g_settings_mutex);
  g_settings.insert(name);
}

void spell_options_as(Spelling spelling) { spelling_of_process() = spelling; }

std::string spelled(std::string_view text) { return spelled(text, spelling_of_process()); }

std::string spelled(std::string_view text, Spelling spelling) {
  std::string result;
  while (true) {
    const std::size_t open = text.find('`');
    const std::size_t close = open == text.npos ? text.npos : text.find('`', open + 1);
    if (close == text.npos) return result.append(text);
    const std::string_view field = text.substr(open + 1, close - open - 1);
    // A quotation that is no field stays; its end may be another one's begin.
    const bool is_option = is_field(field);
    result += text.substr(0, open);
    if (!is_option) {
      result += text.substr(open, close - open);
    } else {
      std::string name(field);
      if (spelling == Spelling::flags) {
        std::ranges::replace(name, '_', '-');
        const std::scoped_lock lock(g_settings_mutex);
        name.insert(0, g_settings.contains(name) ? "--set " : "--");
      }
      result += name;
    }
    text.remove_prefix(is_option ? close + 1 : close);
  }
}

std::vector<std::string> spelled(const std::vector<std::string>& texts) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(spelled(text));
  return result;
}

std::string error_line(const Error& error) { return error_line(error, spelling_of_process()); }

std::string error_line(const Error& error, Spelling spelling) {
  std::string text = spelled(printable(error.what()), spelling);
  const std::string& subject = error.subject();
  if (error.field().empty()) return subject.empty() ? text : text + " (" + printable(subject) + ")";
  // Behind a field stands another one, or the user's own words, which may have backquotes.
  const bool names_options = subject.starts_with("with `") || subject.starts_with("beside `");
  const std::string field = spelled("`" + error.field() + "`", spelling);
  const bool is_key = field.starts_with("--set ") && !names_options;
  return text + " (" + field +
         (subject.empty() ? ""
          : is_key        ? "="
                          : " ") +
         (names_options ? spelled(printable(subject), spelling) : printable(subject)) + ")";
}

std::string error_text(const Error& error) {
  const std::string& hint = error.hint();
  return error_line(error) + (hint.empty() ? "" : "\nhint: " + spelled(printable(hint)));
}

Error as_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::out_of_memory, "not enough memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::internal, error.what(), "internal");
  } catch (...) {
    return Error(ErrorCode::internal, "an unknown exception", "internal");
  }
}

void print_error(const Error& error) { print_failure(error, "error: " + error_text(error)); }

void print_failure(const Error& error, const std::string& text) {
  if (says_json())
    std::cerr << json_line(error);
  else if (!text.empty())
    std::cerr << text + '\n';
}

}  // namespace hydrascope::app
