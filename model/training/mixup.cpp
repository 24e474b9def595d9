#include "model/training/mixup.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {

Mixing draw_mixing(const MixupOptions& options, std::int64_t height, std::int64_t width,
                   RandomStream& random) {
  Mixing mixing;
  if (!options.is_on() || !random.chance(options.prob)) return mixing;
  mixing.is_cutmix = options.mixup_alpha <= 0 || (options.cutmix_alpha > 0 && random.chance(0.5));
  const double alpha = mixing.is_cutmix ? options.cutmix_alpha : options.mixup_alpha;
  mixing.share = random.beta(alpha, alpha);
  if (!mixing.is_cutmix) return mixing;
  const double side = std::sqrt(1 - mixing.share);
  const auto place = [&](std::int64_t length, std::int64_t& first, std::int64_t& last) {
    const auto cut = static_cast<std::int64_t>(static_cast<double>(length) * side);
    const auto centre = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length)));
    first = std::max<std::int64_t>(0, centre - cut / 2);
    last = std::min(length, centre + cut / 2);
  };
  place(height, mixing.top, mixing.bottom);
  place(width, mixing.left, mixing.right);
  const std::int64_t area = (mixing.bottom - mixing.top) * (mixing.right - mixing.left);
  mixing.share = 1 - static_cast<double>(area) / static_cast<double>(height * width);
  return mixing;
}

Mixing draw_mixing(const MixupOptions& options, const Batch& batch, std::uint64_t seed,
                   std::uint64_t rank) {
  constexpr std::uint64_t kMixingStream = 0x6D69787570;  // "mixup": not the pictures' streams
  RandomStream random{seed, kMixingStream, rank, static_cast<std::uint64_t>(batch.epoch),
                      static_cast<std::uint64_t>(batch.index)};
  return draw_mixing(options, batch.images.size(2), batch.images.size(3), random);
}

at::Tensor mix_images(const at::Tensor& images, const Mixing& mixing) {
  if (mixing.share == 1) return images;
  const at::Tensor others = images.flip(0);
  if (!mixing.is_cutmix) return at::lerp(others, images, mixing.share);
  at::Tensor mixed = images.clone();
  const auto box = [&](const at::Tensor& whole) {
    return whole.slice(2, mixing.top, mixing.bottom).slice(3, mixing.left, mixing.right);
  };
  box(mixed).copy_(box(others));
  return mixed;
}

at::Tensor mix_targets(const at::Tensor& targets, std::int64_t num_classes, const Mixing& mixing,
                       double label_smoothing) {
  const at::Tensor labels =
      at::one_hot(targets, num_classes).to(at::kFloat) * (1 - label_smoothing) +
      label_smoothing / static_cast<double>(num_classes);
  return at::lerp(labels.flip(0), labels, mixing.share);
}

}  // namespace hydrascope::model::training
