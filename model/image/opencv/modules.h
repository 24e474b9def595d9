// OpenCV, in two modules that are loaded when a file needs them: its codecs bring 140 libraries
// with them, video another hundred, which take longer to load than a picture to classify. The
// interfaces here are free of OpenCV's types.
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

/// OpenCV's decoded samples: interleaved, blue first.
struct Samples {
  int width = 0;
  int height = 0;
  int channels = 0;
  int bits = 0;  ///< 8 or 16 unsigned, 0: another type
  const std::uint8_t* data = nullptr;
  std::size_t row = 0;           ///< bytes from one row to the next
  std::shared_ptr<void> memory;  ///< owns the samples
};

/// A false result has a reason in `why`; OpenCV may print more. All throw std::bad_alloc.
struct PictureCodecs {
  /// For formats of 8-bit grey or colour without alpha: decodes into the memory of a picture of the
  /// header's size, red first. The Exif orientation is not applied.
  bool (*decode_opaque)(std::span<const std::byte> file, int width, int height, std::uint8_t* rgb,
                        std::string& why);
  /// Any format, as it is stored.
  bool (*decode)(std::span<const std::byte> file, Samples& samples, std::string& why);
  /// `extension` (".jpg") names the format; `quality` from 1 to 100, unless the format has none.
  bool (*encode)(const std::uint8_t* rgb, int width, int height, const char* extension, int quality,
                 std::vector<std::byte>& file, std::string& why);
};

/// A video source.
class VideoSource {
 public:
  VideoSource(const VideoSource&) = delete;
  VideoSource& operator=(const VideoSource&) = delete;
  virtual ~VideoSource() = default;
  [[nodiscard]] virtual double frames_per_second() const = 0;
  [[nodiscard]] virtual double num_frames() const = 0;
  /// The time of the last grabbed frame, from the beginning of its stream. OpenCV 4.6 has no time
  /// for frames that the decoder gives after the end of the file and says 0; other streams without
  /// times give any number.
  [[nodiscard]] virtual double seconds() const = 0;
  /// Moves to the next frame without converting it; false at the end, and with `why` on failure.
  virtual bool grab(std::string& why) = 0;
  /// Converts the frame; false if it does not decode. `is_colour`: 8-bit, three channels.
  virtual bool retrieve(int& width, int& height, bool& is_colour, std::string& why) = 0;
  /// Copies the frame of `retrieve`, which must be colour.
  virtual void copy_rgb(std::uint8_t* rgb) const = 0;

 protected:
  VideoSource() = default;
};

/// A video file in the making; the destructor ends the file.
class VideoSink {
 public:
  VideoSink(const VideoSink&) = delete;
  VideoSink& operator=(const VideoSink&) = delete;
  virtual ~VideoSink() = default;
  /// Writes the part of a picture, `row` pixels wide, that the size given to `create` covers.
  virtual bool write(const std::uint8_t* rgb, int row, std::string& why) = 0;

 protected:
  VideoSink() = default;
};

struct VideoCodecs {
  /// Null if the file is no readable video.
  std::unique_ptr<VideoSource> (*open)(const std::string& file, std::string& why);
  /// Null if the codec is missing.
  std::unique_ptr<VideoSink> (*create)(const std::string& file, std::array<char, 4> codec,
                                       double frames_per_second, int width, int height);
};

/// Loads the module at its first use. Throws Error(unsupported_format) if that fails: OpenCV's
/// libraries are packages of the system, which may lack them.
const PictureCodecs& picture_codecs();
const VideoCodecs& video_codecs();
/// The reason why the pictures' module cannot be loaded; "" if it can, and then it is loaded.
const std::string& why_no_picture_codecs();
/// Loads the pictures' module on a thread of its own, while the caller loads a model. A failure is
/// reported at the module's first use.
[[nodiscard]] std::jthread load_picture_codecs_ahead();

}  // namespace hydrascope::opencv
