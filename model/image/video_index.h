// A video's frames as its container lists them: MP4 and MOV, Matroska and WebM, AVI. OpenCV tells
// neither the times of the last frames, which the decoder gives after the end of the file, nor
// whether the file is whole.
#pragma once

#include <cstdint>
#include <istream>
#include <vector>

namespace hydrascope::image {

struct VideoIndex {
  /// Seconds from the first frame, ascending, of the shown frames of the first track of video, as
  /// far as the file lists them; empty if unknown.
  std::vector<double> times;
  std::int64_t num_frames = 0;  ///< promised frames; 0: not said
  double duration = 0;          ///< in seconds; 0: not said
  bool is_broken = false;       ///< the file ends, or makes no sense, before its announced end
};

/// Reads the structure, not the frames. Another file, or a container that says too little, gives an
/// empty index; nothing is thrown but std::bad_alloc.
VideoIndex read_video_index(std::istream& file);

}  // namespace hydrascope::image
