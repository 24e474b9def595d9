// The one exception type of the program. It sits in the lowest room so that every room can throw it
// without learning about another one; it needs the standard library only.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

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

/// Thrown by library code, which never exits and never prints. `what()` says what is wrong with
/// what was expected against what was found, `subject` names the thing (a file, a tensor, an
/// option), `hint` what the user can do, `where` the line of code that noticed. Options are named as
/// fields in backquotes, "`img_size`": how they are spelled is the caller's to say.
class Error : public std::runtime_error {
 public:
  explicit Error(ErrorCode code, const std::string& what, std::string subject = {},
                 std::string hint = {},
                 std::source_location where = std::source_location::current())
      : std::runtime_error(what),
        code_(code),
        subject_(std::move(subject)),
        hint_(std::move(hint)),
        where_(where) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& subject() const noexcept { return subject_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  std::string subject_;
  std::string hint_;
  std::source_location where_;
};

}  // namespace hydrascope
