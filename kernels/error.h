// The one exception type of the program. It sits in the lowest room so that every room can throw it
// without learning about another one; it needs the standard library only.
#pragma once

#include <cstddef>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope {

/// Why something failed. The first nine are the codes that a record shows (`error.code`);
/// `invalid_argument` is wrong usage or configuration (exit code 2), `failed` everything else.
enum class ErrorCode {
  not_found,
  unreadable,
  unwritable,
  decode_failed,
  unsupported_format,
  too_large,
  empty,
  out_of_memory,
  internal,
  invalid_argument,
  failed,
};

/// The spelling used in records: `ErrorCode::decode_failed` -> "decode_failed".
constexpr std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::unreadable: return "unreadable";
    case ErrorCode::unwritable: return "unwritable";
    case ErrorCode::decode_failed: return "decode_failed";
    case ErrorCode::unsupported_format: return "unsupported_format";
    case ErrorCode::too_large: return "too_large";
    case ErrorCode::empty: return "empty";
    case ErrorCode::out_of_memory: return "out_of_memory";
    case ErrorCode::internal: return "internal";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::failed: return "failed";
  }
  return "internal";
}

/// Whether it can be the name of an option, with '_' for '-': "img_size".
constexpr bool is_field(std::string_view word) {
  if (word.empty() || word.front() < 'a' || word.front() > 'z') return false;
  for (const char letter : word)
    if (!(letter >= 'a' && letter <= 'z') && !(letter >= '0' && letter <= '9') && letter != '_')
      return false;
  return true;
}

/// The first `most` of the names in a message: "a, b, c and 12 more".
inline std::string some_of(const std::vector<std::string>& names, std::size_t most = 10) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// Thrown by library code, which never exits and never prints. `what()` says what is wrong with
/// what was expected against what was found, `field` names the option at fault, `subject` the thing
/// (a value, a file, a tensor), `hint` what the user can do, `where` the line of code that noticed.
/// Texts name options in backquotes, "`img_size`": how they are spelled is the caller's to say.
class Error : public std::runtime_error {
 public:
  /// `about` is field and subject: "`img_size` 12x" is about the field "img_size" and about "12x",
  /// "a.png" about no field.
  explicit Error(ErrorCode code, const std::string& what, std::string about = {},
                 std::string hint = {},
                 std::source_location where = std::source_location::current())
      : std::runtime_error(what),
        code_(code),
        subject_(std::move(about)),
        hint_(std::move(hint)),
        where_(where) {
    const std::size_t end = subject_.starts_with('`') ? subject_.find('`', 1) : subject_.npos;
    if (end == subject_.npos || !is_field(std::string_view(subject_).substr(1, end - 1))) return;
    field_ = subject_.substr(1, end - 1);
    const std::size_t rest = subject_.find_first_not_of(' ', end + 1);
    subject_.erase(0, rest == subject_.npos ? subject_.size() : rest);
  }

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// "img_size"; "" where no option is at fault, or no single one.
  [[nodiscard]] const std::string& field() const noexcept { return field_; }
  [[nodiscard]] const std::string& subject() const noexcept { return subject_; }
  /// Both, as they were given.
  [[nodiscard]] std::string about() const {
    if (field_.empty()) return subject_;
    return "`" + field_ + "`" + (subject_.empty() ? "" : " ") + subject_;
  }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  std::string field_;
  std::string subject_;
  std::string hint_;
  std::source_location where_;
};

}  // namespace hydrascope
