// Decoded pictures of a training set, in memory as far as there is room. Nothing is ever evicted:
// an epoch draws each picture once, so whatever left would be missed as much as what came.
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
  /// `most_bytes` or not: what is kept equals what is not.
  PictureCache(std::int64_t most_bytes, std::int64_t side, const image::DecodeOptions& decode)
      : most_bytes_(most_bytes), side_(side), decode_(decode) {}

  /// From memory, or read and decoded. Any number of threads. Errors as image::read_picture.
  std::shared_ptr<const image::Picture> load(const std::filesystem::path& file);
  /// How many bytes the kept pictures take.
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
