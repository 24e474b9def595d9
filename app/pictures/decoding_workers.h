// How `serve` decodes: other processes decode the pictures, so that a decoder
// that crashes or hangs costs one of them.
#pragma once

#include "model/image/decode.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace hydrascope::app {

/// Asked by this program of itself, no command: `hydrascope decode-pictures SOCKET`, a descriptor.
inline constexpr std::string_view kDecodePictures = "decode-pictures";

/// As many processes as there are threads that read at once. Each ends itself when a picture takes
/// too long, may take memory in proportion to the largest file and picture that are allowed, and
/// ends when this process does. One that is gone is replaced.
class DecodingWorkers final : public image::PictureReader {
 public:
  /// `program`: what has the command; a picture may take `seconds`.
  DecodingWorkers(std::filesystem::path program, double seconds);
  ~DecodingWorkers() override;
  /// Adds to the errors of `read_picture`: Error(decode_failed) where the process ended, also a
  /// second one in case the first had been harmed by an earlier picture; Error(failed) where none
  /// can be started.
  image::Picture read(const std::filesystem::path& file,
                      const image::DecodeOptions& options) override;

 private:
  struct Worker {
    pid_t process = -1;
    int socket = -1;
    bool is_new = true;
  };
  Worker take();
  [[nodiscard]] Worker start() const;
  /// How it ended.
  static int end(const Worker& worker) noexcept;

  std::filesystem::path program_;
  double seconds_;
  std::mutex mutex_;
  std::vector<Worker> idle_;
};

/// Those of this process, which live as long as it does. The first call says how long a picture may
/// take.
image::PictureReader& decoding_workers(double seconds);

/// `image::decode`, by the options' reader where they have one: it gets the bytes as a file that is
/// in memory alone.
image::Picture decode_bytes(std::span<const std::byte> bytes, const image::DecodeOptions& options);

/// The work of such a process until the other end of the socket is closed. Returns its exit code.
int decode_pictures_for(int socket);

}  // namespace hydrascope::app
