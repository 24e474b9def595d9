// OpenCV, which lies in two modules of its own that are loaded when a file needs them: its codecs
// bring 140 libraries with them, video another hundred, which take longer to load than a picture
// to classify. What passes between is free of OpenCV's types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace hydrascope::opencv {

/// Decoded samples as OpenCV has them: interleaved, blue first.
struct Samples {
  int width = 0;
  int height = 0;
  int channels = 0;
  int bits = 0;  ///< 8 or 16 unsigned, 0: another type
  const std::uint8_t* data = nullptr;
  std::size_t row = 0;           ///< bytes from one row to the next
  std::shared_ptr<void> memory;  ///< keeps them
};

/// Functions that give false say why; what OpenCV prints may say more. All throw std::bad_alloc.
struct PictureCodecs {
  /// For formats of 8-bit grey or colour without alpha: into the memory of a picture whose size the
  /// header declares, red first. The Exif orientation is not applied.
  bool (*decode_opaque)(std::span<const std::byte> file, int width, int height, std::uint8_t* rgb,
                        std::string& why);
  /// Whatever the file holds, as it is stored.
  bool (*decode)(std::span<const std::byte> file, Samples& samples, std::string& why);
  /// `extension` (".jpg") names the format; `quality` from 1 to 100, unless the format has none.
  bool (*encode)(const std::uint8_t* rgb, int width, int height, const char* extension, int quality,
                 std::vector<std::byte>& file, std::string& why);
};

/// A video that is read.
class VideoSource {
 public:
  VideoSource(const VideoSource&) = delete;
  VideoSource& operator=(const VideoSource&) = delete;
  virtual ~VideoSource() = default;
  [[nodiscard]] virtual double frames_per_second() const = 0;
  [[nodiscard]] virtual double num_frames() const = 0;
  /// The time of the frame that was grabbed last, from the beginning of its stream. OpenCV 4.6 knows none of
  /// what the decoder gives after the end of the file, and says 0; other streams without give any
  /// number.
  [[nodiscard]] virtual double seconds() const = 0;
  /// Moves to the next frame without converting it; false at the end, and with `why` on failure.
  virtual bool grab(std::string& why) = 0;
  /// Converts it; false where it does not decode. `is_colour`: 8-bit, three channels.
  virtual bool retrieve(int& width, int& height, bool& is_colour, std::string& why) = 0;
  /// The frame that `retrieve` gave, where it is colour.
  virtual void copy_rgb(std::uint8_t* rgb) const = 0;

 protected:
  VideoSource() = default;
};

/// A video that is written; its destructor ends the file.
class VideoSink {
 public:
  VideoSink(const VideoSink&) = delete;
  VideoSink& operator=(const VideoSink&) = delete;
  virtual ~VideoSink() = default;
  /// Of a frame `row` pixels wide, what the size given when the file was opened covers.
  virtual bool write(const std::uint8_t* rgb, int row, std::string& why) = 0;

 protected:
  VideoSink() = default;
};

struct VideoCodecs {
  /// Null where it is no video that is read.
  std::unique_ptr<VideoSource> (*open)(const std::string& file, std::string& why);
  /// Null where that codec is not there.
  std::unique_ptr<VideoSink> (*create)(const std::string& file, std::array<char, 4> codec,
                                       double frames_per_second, int width, int height);
};

/// Loads the module when it is first asked for. Throws Error(unsupported_format) where that fails:
/// OpenCV's libraries are packages of the system, which may lack them.
const PictureCodecs& picture_codecs();
const VideoCodecs& video_codecs();
/// Why the module of pictures cannot be loaded, "" where it can, which it then is.
const std::string& why_no_picture_codecs();
/// Loads that of pictures on a thread of its own, for who has a model to load meanwhile. What fails
/// then fails again where it is needed.
[[nodiscard]] std::jthread load_picture_codecs_ahead();

}  // namespace hydrascope::opencv
