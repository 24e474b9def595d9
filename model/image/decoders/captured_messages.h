// Codecs print: libjpeg, libpng and libtiff write warnings to C's `stderr`, OpenCV writes to
// std::cerr, and neither tells a program that decodes thousands of files which file it means. While
// a CapturedMessages lives, its own thread's messages are collected instead, so that they can
// become the text of the error of the file. Other threads print as ever.
#pragma once

#include <string>

namespace hydrascope::image {

class CapturedMessages {
 public:
  CapturedMessages();
  ~CapturedMessages();
  CapturedMessages(const CapturedMessages&) = delete;
  CapturedMessages& operator=(const CapturedMessages&) = delete;

  /// The messages so far on one line, cut to a few hundred characters; "" without messages.
  [[nodiscard]] std::string text() const;

 private:
  std::string printed_;
  std::string* outer_;
};

/// While one lives, messages to C's `stderr` from threads without a CapturedMessages are dropped:
/// FFmpeg reports damaged frames from decoding threads of its own and cannot be silenced otherwise.
/// std::cerr is not touched.
class MutedCodecThreads {
 public:
  MutedCodecThreads();
  ~MutedCodecThreads();
  MutedCodecThreads(const MutedCodecThreads&) = delete;
  MutedCodecThreads& operator=(const MutedCodecThreads&) = delete;
};

}  // namespace hydrascope::image
