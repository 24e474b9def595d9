#include "model/training/data/readable_pictures.h"

#include "kernels/error.h"

#include <utility>

namespace hydrascope::model::training {

ReadablePictures::ReadablePictures(std::vector<std::filesystem::path> files, std::string name,
                                   std::int64_t most_bytes, std::int64_t side,
                                   const image::DecodeOptions& decode, FailureReport on_failure)
    : files_(std::move(files)),
      name_(std::move(name)),
      cache_(most_bytes, side, decode),
      on_failure_(std::move(on_failure)) {}

bool ReadablePictures::is_unreadable(const std::filesystem::path& file) const {
  const std::lock_guard lock(mutex_);
  return unreadable_.contains(file.native());
}

void ReadablePictures::report(const std::filesystem::path& file, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (unreadable_.contains(file.native())) return;
  // A report that throws is called again: its error may lie in a batch that nobody takes.
  if (on_failure_) on_failure_(file.string(), message);
  unreadable_.insert(file.native());
}

ReadablePictures::Loaded ReadablePictures::load(std::size_t position) {
  for (std::size_t step = 0; step < files_.size(); ++step) {
    const std::size_t at = (position + step) % files_.size();
    const std::filesystem::path& file = files_[at];
    if (is_unreadable(file)) continue;
    try {
      return {at, cache_.load(file)};
    } catch (const Error& error) {
      // A lack of memory says nothing about the picture: another time it might be read.
      if (error.code() == ErrorCode::out_of_memory) throw;
      report(file, error.what());
    }
  }
  throw Error(ErrorCode::failed,
              "none of the " + std::to_string(files_.size()) + " " + name_ + " can be read");
}

}  // namespace hydrascope::model::training
