// Output of several processes into one pipe, terminal or file, never torn.
#pragma once

#include <streambuf>
#include <string>

namespace hydrascope::app {

/// Keeps what is written until a flush; then all of it goes to a file descriptor, and nothing that
/// others write this way comes in between: a pipe takes only 4096 bytes at once (PIPE_BUF), so they
/// lock what the descriptor refers to meanwhile.
class AtomicWrites final : public std::streambuf {
 public:
  /// Does not own `descriptor`.
  explicit AtomicWrites(int descriptor) : descriptor_(descriptor) {}

 protected:
  int_type overflow(int_type letter) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  int descriptor_;
  std::string pending_;
};

}  // namespace hydrascope::app
