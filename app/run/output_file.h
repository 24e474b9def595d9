// `-o`: a file or standard output, which neither two runs nor the processes of one spoil for each other.
#pragma once

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// A file or folder that is there, locked against others that ask for the same until this ends, or
/// the process. Nothing is locked where the file system has no locks.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  /// By another: this one has it not.
  [[nodiscard]] bool is_taken() const noexcept { return is_taken_; }

 private:
  int descriptor_;
  bool is_taken_ = false;
};

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
