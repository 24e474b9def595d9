#include "kernels/device/thread_team.h"
#include "kernels/error.h"
#include "kernels/input_file.h"
#include "model/training/data/batch_loader.h"
#include "model/transform.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace hydrascope::model::training {

struct HeldOutImages::State {
  image::TransformConfig transform;
  image::Size output;
  std::vector<at::Tensor> images;  ///< uint8 (h, w, 3)
  std::vector<std::int64_t> targets;
  bool has_labels = true;
};

HeldOutImages::HeldOutImages(std::vector<TrainingPicture> pictures,
                             const image::TransformConfig& transform, int workers,
                             const FailureReport& on_failure, const image::DecodeOptions& decode)
    : state_(std::make_unique<State>()) {
  if (transform.views.keep_size) {
    throw Error(ErrorCode::invalid_argument,
                "held-out pictures need one size: native resolution has many");
  }
  state_->transform = transform;
  std::vector<at::Tensor> images(pictures.size());
  std::mutex reporting;
  kernels::device::ThreadTeam team(std::max(1, workers));
  team.run(static_cast<std::int64_t>(pictures.size()), [&](std::int64_t item, int) {
    if (g_stop_signal != 0) return;
    const std::filesystem::path& file = pictures[item].file;
    try {
      images[item] = image::transform_pixels(transform, image::read_picture(file, decode));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::out_of_memory) throw;
      const std::lock_guard lock(reporting);
      if (on_failure) on_failure(file.string(), error.what());
    }
  });
  throw_if_stopped();
  // Any picture's plan serves: the output's size is the same for all.
  state_->output = image::plan_transform(transform, {2, 2}).output;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    if (!images[i].defined()) continue;
    state_->images.push_back(std::move(images[i]));
    state_->targets.push_back(pictures[i].target);
    state_->has_labels = state_->has_labels && pictures[i].target >= 0;
  }
}

HeldOutImages::~HeldOutImages() = default;
HeldOutImages::HeldOutImages(HeldOutImages&&) noexcept = default;
HeldOutImages& HeldOutImages::operator=(HeldOutImages&&) noexcept = default;

std::int64_t HeldOutImages::count() const noexcept {
  return static_cast<std::int64_t>(state_->images.size());
}

Batch HeldOutImages::batch(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 1 || first > this->count() - count) {
    throw Error(ErrorCode::invalid_argument,
                "there are no held-out pictures " + std::to_string(first) + " to " +
                    std::to_string(first + count - 1) + " of " + std::to_string(this->count()));
  }
  Batch batch;
  const auto [height, width] = state_->output;
  batch.images = at::empty({count, state_->transform.in_chans, height, width}, at::kFloat);
  auto* out = batch.images.mutable_data_ptr<float>();
  for (std::int64_t i = first; i < first + count; ++i) {
    const at::Tensor image = image::normalise(state_->transform, state_->images[i], state_->output);
    out = std::copy_n(image.const_data_ptr<float>(), image.numel(), out);
  }
  if (state_->has_labels) {
    batch.targets = at::empty({count}, at::kLong);
    std::copy_n(state_->targets.begin() + first, count,
                batch.targets.mutable_data_ptr<std::int64_t>());
  }
  return batch;
}

}  // namespace hydrascope::model::training
