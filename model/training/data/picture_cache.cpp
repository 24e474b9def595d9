#include "model/training/data/picture_cache.h"

#include "model/training/data/crop.h"

#include <algorithm>

namespace hydrascope::model::training {
namespace {

image::Picture reduce(image::Picture picture, std::int64_t side) {
  const std::int64_t shorter = std::min(picture.height, picture.width);
  if (side <= 0 || shorter <= side) return picture;
  const auto scaled = [&](std::int64_t edge) { return (edge * side + shorter / 2) / shorter; };
  return resize(picture, {scaled(picture.height), scaled(picture.width)},
                image::Interpolation::bicubic);
}

}  // namespace

std::shared_ptr<const image::Picture> PictureCache::load(const std::filesystem::path& file) {
  const std::string& name = file.native();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(name); found != kept_.end()) return found->second;
  }
  auto picture =
      std::make_shared<const image::Picture>(reduce(image::read_picture(file, decode_), side_));
  const auto size = static_cast<std::int64_t>(picture->rgb.size());
  const std::lock_guard lock(mutex_);
  if (bytes_ + size <= most_bytes_ && kept_.emplace(name, picture).second) bytes_ += size;
  return picture;
}

std::int64_t PictureCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace hydrascope::model::training
