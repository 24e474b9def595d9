// `-o`: a file or standard output, which two runs do not spoil for each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace hydrascope::app {

/// Keeps what is written until a flush; then all of it goes to a file descriptor. The flush fails where a pipe or a
/// terminal still waits a second after a request to stop.
class AtomicWrites final : public std::stringbuf {
 public:
  /// Does not own `descriptor`.
  explicit AtomicWrites(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] bool is_terminal() const noexcept { return is_terminal_; }

 protected:
  int sync() override;

 private:
  int descriptor_;
  bool is_terminal_ = ::isatty(descriptor_) == 1;
};

/// A file or folder that is there, locked against others that ask for the same until this ends, or
/// the process, however it ends. Nothing is locked where the file system has no locks.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  /// By another: this one has it not.
  [[nodiscard]] bool is_taken() const noexcept { return is_taken_; }
  /// Does `path` still stand for what is locked? True where there are no locks.
  [[nodiscard]] bool is_of(const std::filesystem::path& path) const noexcept;
  /// Waits until what it holds is on the disk; 0 or an errno.
  [[nodiscard]] int sync() const noexcept;

 private:
  int descriptor_;
  bool is_taken_ = false;
};

/// `text` as `out` may have it: as it is, but `printable` for a terminal.
std::string text_for(const std::ostream& out, std::string text);

/// Whether `-o` means standard output: "", "-", /dev/stdout and other names of descriptor 1.
bool is_standard_output(const std::string& output);
/// Whether `-o` means what is open already, descriptors of other numbers (/dev/fd/3) included.
bool is_stream(const std::string& output);

/// Kinds of results. Records, tables, pages and drawings (SVG) are `text`, videos `picture`, weights of `models create`
/// `random_weights`; `companion` is the text that `train` and `embed` keep beside their results. `any` is every file.
enum class FileKind { text, companion, picture, array, store, weights, random_weights, any };

/// Whether `file` is not there, is empty, or shows that this program wrote it as `kind`: text by its first columns or
/// keys, by a page's or a drawing's origin or by `mark_text`, arrays by the order of their header's keys.
bool may_be_replaced(const std::filesystem::path& file, FileKind kind);
/// Throws Error(invalid_argument) where it may not, and for a folder; `place` names the file.
void refuse_to_replace(
    const std::filesystem::path& file, FileKind kind, const std::string& place,
    const std::string& hint = "give the results another name, or remove the file first");

/// Where `out` begins a file of OutputFile: writes the line by which a later run knows text without columns or keys.
void mark_text(std::ostream& out);

/// `-o`: standard output or another descriptor where it means one, else a file. It grows as FILE.part, which is locked meanwhile and takes
/// the file's name on `close`: what the name stood for before stays until then, and what a killed run has written is found in FILE.part.
/// Descriptors, devices and pipes are written as they are. Throws Error(unwritable), and Error(invalid_argument) where another run writes
/// that file, or where it may not be replaced.
class OutputFile {
 public:
  enum class Start { anew, after_whole_lines };

  /// `option`: which one named the file, for messages. `after_whole_lines`: goes on behind the last
  /// whole line of FILE.part or, if a run ended in good order, of FILE.
  explicit OutputFile(const std::string& output, std::string_view option = "`output`",
                      Start start = Start::anew, FileKind kind = FileKind::text);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] std::ostream& stream() noexcept;
  [[nodiscard]] bool is_standard_output() const noexcept { return is_standard_output_; }
  /// The place of the growing file; empty for a file that is written as it is.
  [[nodiscard]] const std::filesystem::path& part() const noexcept { return part_; }
  /// Takes away what FILE.part holds from byte `size` on. A file that is gone on with, and is neither cut nor closed, leaves no part.
  void cut(std::uintmax_t size);
  /// Flushes, and names the file; throws Error(unwritable) when not everything could be written.
  void close();

 private:
  [[noreturn]] void fail(std::string_view what, int error) const;
  void open_descriptor(int descriptor);
  void open_part(Start start);

  std::string place_;  ///< for messages
  std::filesystem::path target_;
  std::filesystem::path part_;
  bool is_copy_ = false;  ///< the part holds a copy of the target alone
  int opened_ = -1;       ///< a device or a pipe
  std::unique_ptr<std::streambuf> atomic_writes_;
  std::unique_ptr<std::ostream> file_;  ///< none: std::cout
  std::unique_ptr<FileLock> lock_;
  bool is_standard_output_ = false;
};

/// Gives `out`, which lives no longer than `place`, the name that messages use: "--output x.csv".
void name_stream(std::ostream& out, const std::string& place);
/// Flushes `out`; throws Error(unwritable) with its name, else "standard output", if that, or a
/// write before, did not succeed.
void flush_results(std::ostream& out);

/// For a file that is written when everything is computed: throws Error(invalid_argument) where it
/// could not be, for want of its folder or because a folder has its name, and where it may not be
/// replaced. `option` named it.
void check_output_file(const std::string& file, std::string_view option,
                       FileKind kind = FileKind::text);

}  // namespace hydrascope::app
