#include "model/training/data/batch_loader.h"

#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "model/training/data/augment.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/readable_pictures.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace hydrascope::model::training {
namespace {

constexpr std::uint64_t kAugmentStream = 0x61756776;     // "augm": not the stream of the order
constexpr std::uint64_t kResolutionStream = 0x73697a65;  // "size"

/// The smallest crop of a square picture has the share sqrt(area / aspect) of its side.
std::int64_t largest_shorter_side(const LoaderOptions& options) {
  if (options.cache_side == 0) return 0;
  const auto [height, width] = options.augment.size;
  const auto [narrowest, widest] = options.augment.ratio;
  const double share = std::sqrt(options.augment.scale[0] * std::min(narrowest, 1 / widest));
  const double side = std::ceil(static_cast<double>(std::max(height, width)) / share);
  return std::max(options.cache_side, static_cast<std::int64_t>(side));
}

/// A batch that workers fill, one picture at a time.
struct PendingBatch {
  Batch batch;
  ResolutionStep resolution;           ///< for training at several sizes
  std::vector<std::int64_t> pictures;  ///< positions in the set
  std::size_t items = 0;               ///< pieces of work: pictures, or views of some
  std::size_t taken = 0;               ///< pieces that a worker has begun
  std::size_t done = 0;
  std::exception_ptr failure;

  [[nodiscard]] bool has_work() const { return taken < items; }
  [[nodiscard]] bool is_over() const { return failure != nullptr || done == items; }
};

std::vector<std::filesystem::path> files_of(const std::vector<TrainingPicture>& pictures) {
  std::vector<std::filesystem::path> files;
  for (const TrainingPicture& picture : pictures) files.push_back(picture.file);
  return files;
}

}  // namespace

struct BatchLoader::State {
  State(std::vector<TrainingPicture> the_pictures, LoaderOptions the_options)
      : pictures(std::move(the_pictures)),
        options(std::move(the_options)),
        sampler(pictures, options.sampler),
        readable(files_of(pictures), "pictures of the training set", options.cache_bytes,
                 largest_shorter_side(options), options.decode, options.on_failure),
        backgrounds(options.resolutions.backgrounds, "backgrounds of scenes", options.cache_bytes,
                    /*side=*/0, options.decode, options.on_failure),
        has_labels(std::all_of(pictures.begin(), pictures.end(),
                               [](const TrainingPicture& p) { return p.target >= 0; })) {
    check_augmentation(options.augment);
    check_resolutions(options.resolutions);
    options.batches_ahead = std::max(1, options.batches_ahead);
  }

  struct Loaded {
    std::shared_ptr<const image::Picture> pixels;
    std::int64_t target;
  };
  /// The picture at `position` of the set, or the next one that can be read.
  Loaded load(std::int64_t position) {
    const auto [found, pixels] = readable.load(static_cast<std::size_t>(position));
    return {pixels, pictures[found].target};
  }

  void prepare(PendingBatch& pending, std::size_t item) {
    const Loaded picture = load(pending.pictures[item]);
    const auto offset = static_cast<std::int64_t>(item);
    const std::int64_t position = sampler.position(pending.batch.index, offset);
    RandomStream stream{options.sampler.seed, kAugmentStream,
                        static_cast<std::uint64_t>(pending.batch.epoch),
                        static_cast<std::uint64_t>(position)};
    const at::Tensor image = augment(options.augment, *picture.pixels, stream);
    std::copy_n(image.const_data_ptr<float>(), image.numel(),
                pending.batch.images.mutable_data_ptr<float>() + offset * image.numel());
    if (has_labels) pending.batch.targets.mutable_data_ptr<std::int64_t>()[item] = picture.target;
  }

  [[nodiscard]] bool learns_sizes() const { return !options.resolutions.sizes.empty(); }

  /// View `item` of the batch and its parts.
  void prepare_view(PendingBatch& pending, std::size_t item) {
    const ResolutionStep& step = pending.resolution;
    const auto view = static_cast<std::int64_t>(item);
    const std::int64_t position = sampler.position(pending.batch.index, view * step.parts);
    RandomStream stream{options.sampler.seed, kAugmentStream,
                        static_cast<std::uint64_t>(pending.batch.epoch),
                        static_cast<std::uint64_t>(position)};
    std::vector<std::shared_ptr<const image::Picture>> parts;
    for (std::int64_t i = 0; i < step.parts; ++i) {
      const std::int64_t picture = view * step.parts + i;
      const Loaded part = load(pending.pictures[static_cast<std::size_t>(picture)]);
      parts.push_back(part.pixels);
      if (has_labels) pending.batch.targets.mutable_data_ptr<std::int64_t>()[picture] = part.target;
    }
    std::shared_ptr<const image::Picture> background;
    if (step.is_scene) {
      const std::size_t count = options.resolutions.backgrounds.size();
      background = backgrounds.load(static_cast<std::size_t>(stream.below(count))).pixels;
    }
    at::Tensor& images = pending.batch.images;
    const std::int64_t of_a_view = images.numel() / step.views;
    const at::Tensor made =
        make_view(options.augment, options.resolutions, step, parts, background.get(), stream,
                  images.mutable_data_ptr<float>() + view * of_a_view);
    std::copy_n(made.const_data_ptr<float>(), made.numel(),
                pending.batch.views.mutable_data_ptr<float>() + view * made.numel());
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      is_ending = true;
    }
    work_waits.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void fill_in(PendingBatch& pending) {
    std::int64_t count = options.sampler.batch_size;
    const auto [height, width] = options.augment.size;
    pending.batch.epoch = epoch;
    pending.batch.index = index;
    pending.pictures = sampler.batch(epoch, index);
    pending.items = pending.pictures.size();
    if (learns_sizes()) {
      // The resolution does not depend on the rank, so all ranks take equally long.
      RandomStream stream{options.sampler.seed, kResolutionStream,
                          static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index)};
      pending.resolution =
          draw_resolution(options.resolutions, options.augment.size, count, stream);
      const ResolutionStep& step = pending.resolution;
      count = step.views * step.parts;
      pending.items = static_cast<std::size_t>(step.views);
      pending.batch.is_scene = step.is_scene;
      pending.batch.views =
          at::empty({step.views, 3, step.size.height, step.size.width}, at::kFloat);
    }
    if (has_labels) pending.batch.targets = at::empty({count}, at::kLong);
    pending.batch.images = at::empty({count, 3, height, width}, at::kFloat);
  }

  /// Begins the next batch of the run. The caller holds the lock.
  void open_batch() {
    auto pending = std::make_shared<PendingBatch>();
    try {
      fill_in(*pending);
    } catch (...) {
      pending->failure = std::current_exception();
      batch_waits.notify_all();
    }
    window.push_back(std::move(pending));
    if (++index == sampler.batches_per_epoch()) {
      index = 0;
      ++epoch;
    }
  }

  /// The oldest batch with pictures that nobody has begun; null when enough is prepared. The caller
  /// holds the lock.
  std::shared_ptr<PendingBatch> find_work() {
    const auto most = static_cast<std::size_t>(options.batches_ahead);
    for (std::size_t i = 0; i < most; ++i) {
      if (i == window.size()) open_batch();
      if (window[i]->failure != nullptr) return nullptr;
      if (window[i]->has_work()) return window[i];
    }
    return nullptr;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      std::shared_ptr<PendingBatch> pending;
      work_waits.wait(lock, [&] { return is_ending || (pending = find_work()) != nullptr; });
      if (is_ending) return;
      const std::size_t item = pending->taken++;
      lock.unlock();
      std::exception_ptr failure;
      try {
        learns_sizes() ? prepare_view(*pending, item) : prepare(*pending, item);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      ++pending->done;
      if (failure != nullptr && pending->failure == nullptr) pending->failure = failure;
      if (pending->is_over()) batch_waits.notify_all();
    }
  }

  const std::vector<TrainingPicture> pictures;
  LoaderOptions options;
  Sampler sampler;
  ReadablePictures readable;
  ReadablePictures backgrounds;
  const bool has_labels;

  std::mutex mutex;  ///< guards the members below and the sampler's order
  std::condition_variable work_waits;
  std::condition_variable batch_waits;
  std::deque<std::shared_ptr<PendingBatch>> window;  ///< shared with workers: `seek` drops them
  std::int64_t epoch = 0;                            ///< epoch of the next batch to open
  std::int64_t index = 0;
  bool is_ending = false;
  double wait_seconds = 0;
  std::vector<std::thread> workers;
};

BatchLoader::BatchLoader(std::vector<TrainingPicture> pictures, LoaderOptions options)
    : state_(std::make_unique<State>(std::move(pictures), std::move(options))) {
  kernels::device::start_threads(state_->workers, std::max(1, state_->options.workers),
                                 [state = state_.get()](int) { state->work(); });
}

BatchLoader::~BatchLoader() = default;

std::int64_t BatchLoader::batches_per_epoch() const noexcept {
  return state_->sampler.batches_per_epoch();
}

void BatchLoader::seek(std::int64_t epoch, std::int64_t index) {
  if (epoch < 0 || index < 0 || index >= batches_per_epoch()) {
    throw Error(ErrorCode::invalid_argument, "there is no batch " + std::to_string(index) +
                                                 " of epoch " + std::to_string(epoch));
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->window.clear();
    state_->epoch = epoch;
    state_->index = index;
  }
  state_->work_waits.notify_all();
}

Batch BatchLoader::next() {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(state_->mutex);
  const auto& window = state_->window;
  state_->batch_waits.wait(lock, [&] { return !window.empty() && window.front()->is_over(); });
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  state_->wait_seconds += waited.count();
  if (window.front()->failure != nullptr) std::rethrow_exception(window.front()->failure);
  Batch batch = std::move(window.front()->batch);
  state_->window.pop_front();
  lock.unlock();
  state_->work_waits.notify_all();
  return batch;
}

double BatchLoader::take_wait_seconds() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->wait_seconds, 0.0);
}

}  // namespace hydrascope::model::training
