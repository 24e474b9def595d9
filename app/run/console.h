// The messages of a command besides its results, on stderr.
#pragma once

#include "app/run/output_file.h"
#include "kernels/error.h"

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
  /// Is told what `note` says, with flags, --quiet or not; may be empty.
  std::function<void(const std::string&)> heard = {};

  /// For the processes beside the first one, which would say the same.
  [[nodiscard]] Console errors_only() const;
  /// A line on stderr, with flags, unless --quiet.
  void note(std::string_view text) const;
  /// A line on stderr with --verbose only.
  void detail(std::string_view text) const;
};

/// Opens /dev/null in the place of standard streams that are closed: else the first file that is
/// opened would get their number, and what is meant for the screen. Writing results still fails.
void fill_closed_streams();

/// The text of other rooms, which name what can be chosen as fields in backquotes ("`img_size`"),
/// with this program's options in their place ("--img-size").
std::string with_flags(std::string_view text);
std::vector<std::string> with_flags(const std::vector<std::string>& texts);

/// `error: what (where)`, and the hint on a line of its own; with flags.
std::string error_text(const Error& error);
/// That on stderr, in one write: several processes may share it.
void print_error(const Error& error);

// The message that torchrun gets of a process that failed.

/// Writes `message` to the file that TORCHELASTIC_ERROR_FILE names, in the form that
/// torch.distributed.elastic reads and shows; does nothing where it names none, or nothing can be
/// written: the process is failing already.
void report_to_torchelastic(const std::string& message) noexcept;

}  // namespace hydrascope::app
