// Batches of augmented pictures, prepared ahead by workers, in an order that depends on the seed
// alone: a run that starts at batch n gets the batches of a run that arrives at n, bit for bit.
#pragma once

#include "model/image/decode.h"
#include "model/training/data/readable_pictures.h"
#include "model/training/data/resolution_views.h"
#include "model/training/data/training_set.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

struct Batch {
  at::Tensor images;   ///< float32 (B, 3, H, W), normalised
  at::Tensor targets;  ///< int64 (B); undefined without labels
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< number of the batch in its epoch
  /// With `LoaderOptions::resolutions`: the student's views, float32 (V, 3, H', W'). `images` are
  /// then the B = V * k parts of these views as the teacher sees them, the first view's parts
  /// first, and `targets` are the parts' classes.
  at::Tensor views = {};
  bool is_scene = false;  ///< the views show their parts on backgrounds
};

/// The order in which pictures are drawn.
struct SamplerOptions {
  std::int64_t batch_size = 32;  ///< this process's
  std::uint64_t seed = 42;
  int rank = 0;
  int world_size = 1;
  /// The sources (TrainingPicture::source) are drawn equally often. An epoch stays as long:
  /// pictures of large sources are left out and pictures of small ones come more than once.
  bool balance_sources = false;
  /// Batches of an epoch; 0: as many whole ones as the pictures fill (at least one).
  std::int64_t batches_per_epoch = 0;
};

/// The pictures of global batch `index` of `epoch`, for all ranks: positions in the set. Rank r
/// takes [r * batch_size, (r + 1) * batch_size) of them, so W ranks see the pictures of one process
/// with W times the batch.
class Sampler {
 public:
  /// Throws Error(invalid_argument) for an empty set.
  Sampler(const std::vector<TrainingPicture>& pictures, SamplerOptions options);
  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept;
  /// Positions of this rank's pictures; the sampler keeps the order of one epoch.
  std::vector<std::int64_t> batch(std::int64_t epoch, std::int64_t index);
  /// The number in its epoch of the picture at `offset` of `batch`, for random streams.
  [[nodiscard]] std::int64_t position(std::int64_t index, std::int64_t offset) const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Pictures as stored, without Exif orientation, as in timm and in published scores.
inline constexpr image::DecodeOptions kAsStored{.apply_exif = false};

struct LoaderOptions {
  SamplerOptions sampler;
  AugmentOptions augment;
  ResolutionOptions resolutions;  ///< without sizes: the teacher's alone
  int workers = 1;
  int batches_ahead = 4;
  /// Bytes of decoded pictures kept in memory; 0 keeps none.
  std::int64_t cache_bytes = std::int64_t{1} << 30;
  /// Longest shorter side of a decoded picture, but large enough not to magnify the smallest crop;
  /// 0: any. Larger pictures are reduced before the crop, kept in memory or not.
  std::int64_t cache_side = 512;
  image::DecodeOptions decode = kAsStored;
  /// Called once per file, one call at a time, from any thread; the next readable picture of the
  /// set, or the next readable background, takes the file's place.
  FailureReport on_failure = {};
};

class BatchLoader {
 public:
  BatchLoader(std::vector<TrainingPicture> pictures, LoaderOptions options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept;
  /// Goes to batch `index` of `epoch`; batches prepared ahead are dropped.
  void seek(std::int64_t epoch, std::int64_t index);
  /// Waits for the next batch. Epochs follow each other without end. Throws Error when no picture
  /// of the set can be read.
  Batch next();
  /// Seconds that `next` waited since the last call of this.
  double take_wait_seconds();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Pictures prepared as in evaluation, decoded by workers, each once and in order; unreadable ones
/// are left out. For held-out sets that are looked at many times: the tensors of all pictures are
/// kept as bytes.
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
