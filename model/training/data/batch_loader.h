// Batches of augmented pictures, prepared ahead by workers, in an order that depends on the seed
// alone: a run that starts at batch n gets what a run that came there would have got, bit for bit.
#pragma once

#include "model/image/decode.h"
#include "model/training/data/readable_pictures.h"
#include "model/training/data/resolution_views.h"
#include "model/training/data/training_set.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::model::training {

struct Batch {
  at::Tensor images;   ///< float32 (B, 3, H, W), normalised
  at::Tensor targets;  ///< int64 (B); undefined without labels
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< of the batch in its epoch
  /// With `LoaderOptions::resolutions`: float32 (V, 3, H', W'), what the student looks at. `images`
  /// are then the B = V * k parts of these views as the teacher sees them, those of the first view
  /// first, and `targets` theirs.
  at::Tensor views = {};
};

/// In which order pictures are drawn.
struct SamplerOptions {
  std::int64_t batch_size = 32;  ///< of this process
  std::uint64_t seed = 42;
  int rank = 0;
  int world_size = 1;
  /// Each picture so many times one after the other, differently augmented (timm's `aug_repeats`;
  /// Hoffer et al. 2020, arXiv 1901.09335); an epoch stays as long. 0 and 1: once.
  int repeats = 0;
  /// The sources (TrainingPicture::source) are drawn equally often: an epoch stays as long,
  /// pictures of large sources are left out and those of small ones come more than once.
  bool balance_sources = false;
  /// Batches of an epoch; 0: as many whole ones as the pictures fill (at least one).
  std::int64_t batches_per_epoch = 0;
};

/// The pictures of global batch `index` of `epoch`, for all ranks: positions in the set. Of them,
/// rank r takes [r * batch_size, (r + 1) * batch_size), so W ranks see what one process with W
/// times the batch sees.
class Sampler {
 public:
  /// Throws Error(invalid_argument) for an empty set.
  Sampler(const std::vector<TrainingPicture>& pictures, SamplerOptions options);
  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept;
  /// Positions of this rank's pictures; the sampler keeps the order of one epoch.
  std::vector<std::int64_t> batch(std::int64_t epoch, std::int64_t index);
  /// What `batch` gives at `offset` has this number in its epoch, for random streams.
  [[nodiscard]] std::int64_t position(std::int64_t index, std::int64_t offset) const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Pictures as they are stored, as timm and published scores have it.
inline constexpr image::DecodeOptions kAsStored{.apply_exif = false};

struct LoaderOptions {
  SamplerOptions sampler;
  AugmentOptions augment;
  ResolutionOptions resolutions;  ///< without sizes: the teacher's alone
  int workers = 1;
  int batches_ahead = 4;
  /// Decoded pictures are kept in memory up to that; 0 keeps none.
  std::int64_t cache_bytes = std::int64_t{1} << 30;
  /// Longest shorter side of a decoded picture, but large enough for the smallest crop not to be
  /// magnified; 0: any. Larger ones are reduced before the crop, kept in memory or not.
  std::int64_t cache_side = 512;
  image::DecodeOptions decode = kAsStored;
  /// Once per file, one call at a time, from any thread; the next picture of the set, or the next
  /// background, that can be read takes its place.
  FailureReport on_failure = {};
};

class BatchLoader {
 public:
  BatchLoader(std::vector<TrainingPicture> pictures, LoaderOptions options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept;
  /// The next batch is number `index` of `epoch`; what was prepared ahead is dropped.
  void seek(std::int64_t epoch, std::int64_t index);
  /// Waits for it. Epochs follow each other without end. Throws Error when no picture of the set
  /// can be read.
  Batch next();
  /// Seconds that `next` waited since the last call of this.
  double take_wait_seconds();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Pictures prepared as evaluation does it, decoded by workers, each once and in order; those that
/// cannot be read are left out. For held-out sets that are looked at many times: the tensors of all
/// of them are kept as bytes.
class HeldOutImages {
 public:
  /// `on_failure` is called once per picture, one call at a time, from any thread. Throws
  /// Error(invalid_argument) for a transform without one size (`native`).
  HeldOutImages(std::vector<TrainingPicture> pictures, const image::TransformConfig& transform,
                int workers, const FailureReport& on_failure = {},
                const image::DecodeOptions& decode = kAsStored);
  ~HeldOutImages();
  HeldOutImages(HeldOutImages&&) noexcept;
  HeldOutImages& operator=(HeldOutImages&&) noexcept;
  [[nodiscard]] std::int64_t count() const noexcept;
  /// Images first .. first + count, which must exist.
  [[nodiscard]] Batch batch(std::int64_t first, std::int64_t count) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::training
