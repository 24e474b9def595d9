// Decoded pictures of a training set, in memory as far as there is room. Nothing is ever evicted:
// an epoch draws each picture once, so an evicted picture would be missed as much as the new one.
#pragma once

#include "model/image/decode.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace hydrascope::model::training {

class PictureCache {
 public:
  /// Pictures are reduced to a shorter side of `side` (0: never), whether there is room for them in
  /// `most_bytes` or not, so that kept pictures equal the others.
  PictureCache(std::int64_t most_bytes, std::int64_t side, const image::DecodeOptions& decode)
      : most_bytes_(most_bytes), side_(side), decode_(decode) {}

  /// The picture, from memory or its file. Threads may share it. Errors as image::read_picture.
  std::shared_ptr<const image::Picture> load(const std::filesystem::path& file);
  /// Bytes of the kept pictures.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t most_bytes_;
  std::int64_t side_;
  image::DecodeOptions decode_;
  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0;
  std::unordered_map<std::string, std::shared_ptr<const image::Picture>> kept_;
};

}  // namespace hydrascope::model::training
