#include "model/image/decoders/captured_messages.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <streambuf>
#include <string_view>
#include <unistd.h>

namespace hydrascope::image {
namespace {

constexpr std::size_t kMaxCharacters = 400;

/// The target of this thread's messages; null while nothing captures on this thread.
thread_local std::string* sink = nullptr;

std::atomic<int> muting_readers{0};

bool capture(std::string_view text) {
  if (sink == nullptr) return false;
  sink->append(text.substr(0, kMaxCharacters - std::min(sink->size(), kMaxCharacters)));
  return true;
}

/// Stands before std::cerr's own buffer; unbuffered like it.
class CapturingBuffer final : public std::streambuf {
 public:
  explicit CapturingBuffer(std::streambuf* target) : target_(target) {}

 private:
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof()))
      return traits_type::not_eof(character);
    const char byte = traits_type::to_char_type(character);
    return capture({&byte, 1}) ? character : target_->sputc(byte);
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    return capture({text, static_cast<std::size_t>(count)}) ? count : target_->sputn(text, count);
  }
  int sync() override { return sink != nullptr ? 0 : target_->pubsync(); }

  std::streambuf* target_;
};

#ifdef __GLIBC__
ssize_t write_to_stderr(void*, const char* text, std::size_t count) {
  if (capture({text, count}) || muting_readers > 0) return static_cast<ssize_t>(count);
  return ::write(STDERR_FILENO, text, count);
}
#endif

/// Both streams are replaced once, before main and so before a second thread could print; swapping
/// them around each decode would race. Neither object is ever destroyed: others may print until the
/// process ends. Others' messages go to the file descriptor 2 as ever, and fileno(stderr) is 2.
/// Only glibc lets C's `stderr` be assigned; elsewhere the codecs' warnings stay visible.
const bool kInstalled = [] {
  std::cerr.rdbuf(new CapturingBuffer(std::cerr.rdbuf()));
#ifdef __GLIBC__
  cookie_io_functions_t functions{};
  functions.write = &write_to_stderr;
  if (std::FILE* stream = ::fopencookie(nullptr, "w", functions); stream != nullptr) {
    std::setvbuf(stream, nullptr, _IONBF, 0);
    // fileno(stderr) answers only for streams that are marked as a file's.
    constexpr int kIsFile = 0x2000;  // _IO_IS_FILEBUF
    stream->_flags |= kIsFile;
    stream->_fileno = STDERR_FILENO;
    stderr = stream;
  }
#endif
  return true;
}();

}  // namespace

MutedCodecThreads::MutedCodecThreads() { ++muting_readers; }

MutedCodecThreads::~MutedCodecThreads() { --muting_readers; }

CapturedMessages::CapturedMessages() : outer_(sink) { sink = kInstalled ? &printed_ : nullptr; }

CapturedMessages::~CapturedMessages() { sink = outer_; }

std::string CapturedMessages::text() const {
  std::string line = printed_;
  for (char& character : line) {
    if (static_cast<unsigned char>(character) < ' ') character = ' ';
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace hydrascope::image
