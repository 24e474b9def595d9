// What a command says besides its results: notes on stderr, results on stdout or into a file.
#pragma once

#include "app/run/file_lock.h"
#include "kernels/error.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// What is said, and how.
struct Console {
  bool verbose = false;
  bool quiet = false;
  bool color = false;  ///< for standard output
  bool progress = true;

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

/// The text of other rooms, which name what can be chosen as fields in backquotes ("`keep_tokens`"),
/// with this program's options in their place ("--keep-tokens").
std::string with_flags(std::string_view text);
std::vector<std::string> with_flags(const std::vector<std::string>& texts);

/// `error: what (where)`, and the hint on a line of its own; with flags.
std::string error_text(const Error& error);
/// That on stderr, in one write: several processes may share it.
void print_error(const Error& error);

/// `-o`: standard output for "" and "-", else a file that is replaced, and locked meanwhile. Throws
/// Error(unwritable), also where another run writes that file.
class OutputFile {
 public:
  /// `option`: which one named the file, for messages. `among_others`: standard output is shared
  /// with processes that write records, too; then each flush writes what came since the last one
  /// without anything of theirs in between.
  explicit OutputFile(const std::string& output, std::string_view option = "--output",
                      bool among_others = false);
  [[nodiscard]] std::ostream& stream() noexcept { return file_ ? *file_ : std::cout; }
  [[nodiscard]] bool is_standard_output() const noexcept { return is_standard_output_; }
  /// Flushes; throws Error(unwritable) when not everything could be written.
  void close();

 private:
  std::string name_;
  std::unique_ptr<std::streambuf> atomic_writes_;
  std::unique_ptr<std::ostream> file_;  ///< none: std::cout
  std::unique_ptr<FileLock> lock_;
  bool is_standard_output_ = false;
};

/// For a file that is written when everything is computed: throws Error(invalid_argument) where it
/// could not be, for want of its folder or because a folder has its name. `option` named it.
void check_output_file(const std::string& file, std::string_view option);

}  // namespace hydrascope::app
