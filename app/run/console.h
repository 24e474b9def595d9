// The messages of a command besides its results, on stderr.
#pragma once

#include "app/run/output_file.h"
#include "kernels/error.h"

#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// The choice of messages and their form.
struct Console {
  bool verbose = false;
  bool quiet = false;
  bool color = false;  ///< for standard output
  bool progress = true;
  /// Is told what `note` says, spelled, --quiet or not; may be empty.
  std::function<void(const std::string&)> heard = {};

  /// For the processes beside the first one, which would say the same.
  [[nodiscard]] Console errors_only() const;
  /// A line on stderr, spelled, unless --quiet.
  void note(std::string_view text) const;
  /// A line on stderr with --verbose only.
  void detail(std::string_view text) const;
};

// Messages of all rooms name options as fields in backquotes, "`img_size`". A front end spells them:
// the command line "--img-size", HTTP and Python "img_size".

enum class Spelling { flags, names };
/// The spelling of this process: flags, unless this was called or HYDRASCOPE_ERRORS is "json".
void spell_options_as(Spelling spelling);
/// A message with its options spelled, as this process does or as `spelling` says.
std::string spelled(std::string_view text);
/// The command line sets `name`, with dashes, by `--set NAME=`: texts spell it so.
void spell_as_setting(const std::string& name);
std::string spelled(std::string_view text, Spelling spelling);
std::vector<std::string> spelled(const std::vector<std::string>& texts);

/// The words of an exception, whatever it is.
Error as_error(const std::exception_ptr& exception);
/// `what (field subject)`, spelled.
std::string error_line(const Error& error);
std::string error_line(const Error& error, Spelling spelling);
/// The same, and the hint on a line of its own.
std::string error_text(const Error& error);
/// "error: " and that on stderr, in one write: several processes may share it. With HYDRASCOPE_ERRORS=json
/// a line {"error": {"code", "field", "subject", "text", "hint"}}, and notes are {"note": text}.
void print_error(const Error& error);
/// The same for one input of many, which is `text` where errors are no JSON; "": nothing is written.
void print_failure(const Error& error, const std::string& text = "");

}  // namespace hydrascope::app
