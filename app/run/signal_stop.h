// Orderly stop on SIGINT, SIGTERM and SIGHUP: what is finished is written, then the program ends
// with 128 + the signal's number.
#pragma once

namespace hydrascope::app {

/// From now on the first SIGINT, SIGTERM or SIGHUP only raises a flag that commands poll between
/// two batches, and every wait for a pipe or a device (kernels/input_file.h); a second one ends the process at once with 128 + its number. The first two are
/// installed even where they were inherited as ignored: background jobs of scripts get SIGINT so,
/// and the contract of exit codes holds there too. SIGHUP stays ignored if it was: that is what
/// nohup asks for.
///
/// SIGPIPE gets its default action, whatever was inherited: when the reader of the results is gone
/// (`| head -1`) the process ends without a word, as every Unix filter does, and nobody has to find
/// EPIPE behind three layers of streams.
void install_signal_handlers();

bool stop_requested() noexcept;
/// 130, 143 or 129 after a request, else `otherwise`.
int exit_code_after_stop(int otherwise) noexcept;

/// While it lives, a reader of the results that goes away ends nothing by itself: for commands that
/// have files to complete. They ask `reader_is_gone` when a write fails, and `end_quietly` at last.
class HeldPipeSignal {
 public:
  HeldPipeSignal();
  HeldPipeSignal(const HeldPipeSignal&) = delete;
  HeldPipeSignal& operator=(const HeldPipeSignal&) = delete;
  ~HeldPipeSignal();
  /// Whether nobody can read what is written to standard output.
  [[nodiscard]] static bool reader_is_gone() noexcept;
  /// Ends the process as SIGPIPE would have.
  [[noreturn]] static void end_quietly() noexcept;
};

}  // namespace hydrascope::app
