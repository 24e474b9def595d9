// mixup (Zhang et al. 2018, arXiv 1710.09412) and CutMix (Yun et al. 2019, arXiv 1905.04899), one
// draw per batch, as timm's Mixup in batch mode.
#pragma once

#include "model/training/data/batch_loader.h"
#include "model/training/data/random_stream.h"
#include "model/training/options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model::training {

/// How one batch is mixed: each image with its counterpart from the batch's other end.
struct Mixing {
  double share = 1;  ///< weight of the image's own label, and with mixup of its own pixels
  /// CutMix: rows top .. bottom and columns left .. right come from the other image.
  bool is_cutmix = false;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

/// For images of height x width pixels. A box of (1 - share) of the area around a uniform centre is
/// clipped at the border, and `share` becomes the area outside the box.
Mixing draw_mixing(const MixupOptions& options, std::int64_t height, std::int64_t width,
                   RandomStream& random);

/// The same for the images of `batch`, drawn from `seed`, the batch's place in the run and `rank`:
/// a resumed run draws the same, and each batch of an update another mixing.
Mixing draw_mixing(const MixupOptions& options, const Batch& batch, std::uint64_t seed,
                   std::uint64_t rank);

/// images (B, 3, H, W) -> the mixed images; the argument stays.
at::Tensor mix_images(const at::Tensor& images, const Mixing& mixing);
/// targets int64 (B) -> float32 (B, num_classes), smoothed and mixed; rows sum to 1.
at::Tensor mix_targets(const at::Tensor& targets, std::int64_t num_classes, const Mixing& mixing,
                       double label_smoothing);

}  // namespace hydrascope::model::training
