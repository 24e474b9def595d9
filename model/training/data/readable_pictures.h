// The pictures of a list; the next one takes the place of an unreadable one.
#pragma once

#include "model/training/data/picture_cache.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace hydrascope::model::training {

/// Receives each picture that cannot be read.
using FailureReport = std::function<void(const std::string& file, const std::string& message)>;

class ReadablePictures {
 public:
  /// Errors call the list `name`; `most_bytes` and `side` are PictureCache's. `on_failure` is
  /// called once per file, and again after it threw, one call at a time, from any thread.
  ReadablePictures(std::vector<std::filesystem::path> files, std::string name,
                   std::int64_t most_bytes, std::int64_t side, const image::DecodeOptions& decode,
                   FailureReport on_failure);

  struct Loaded {
    std::size_t position;
    std::shared_ptr<const image::Picture> pixels;
  };
  /// The picture at `position`, or the first readable one behind it, the list taken as a ring.
  /// Threads may share it. Throws Error(failed) when there is none, and the exceptions of the
  /// report.
  Loaded load(std::size_t position);

 private:
  [[nodiscard]] bool is_unreadable(const std::filesystem::path& file) const;
  void report(const std::filesystem::path& file, const std::string& message);

  const std::vector<std::filesystem::path> files_;
  const std::string name_;
  PictureCache cache_;
  const FailureReport on_failure_;
  mutable std::mutex mutex_;
  std::unordered_set<std::string> unreadable_;
};

}  // namespace hydrascope::model::training
