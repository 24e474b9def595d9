// Codecs print: libjpeg, libpng and libtiff write warnings to C's `stderr`, OpenCV writes to
// std::cerr, and neither gives a program that decodes thousands of files a handle on it. While a
// CapturedMessages lives, what its own thread prints there is collected instead, so that it can
// become the text of the error of the file it belongs to. Other threads print as ever.
#pragma once

#include <string>

namespace hydrascope::image {

class CapturedMessages {
 public:
  CapturedMessages();
  ~CapturedMessages();
  CapturedMessages(const CapturedMessages&) = delete;
  CapturedMessages& operator=(const CapturedMessages&) = delete;

  /// What was printed so far on one line, cut to a few hundred characters; "" when nothing was.
  [[nodiscard]] std::string text() const;

 private:
  std::string printed_;
  std::string* outer_;
};

/// While one lives, what threads without a CapturedMessages print to C's `stderr` is dropped:
/// FFmpeg reports damaged frames from decoding threads of its own, and from nowhere else can it be
/// silenced. std::cerr is not touched.
class MutedCodecThreads {
 public:
  MutedCodecThreads();
  ~MutedCodecThreads();
  MutedCodecThreads(const MutedCodecThreads&) = delete;
  MutedCodecThreads& operator=(const MutedCodecThreads&) = delete;
};

}  // namespace hydrascope::image
