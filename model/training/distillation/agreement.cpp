#include "model/training/distillation/agreement.h"

#include "kernels/error.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/resolution_views.h"
#include "model/training/distillation/exits_task.h"
#include "model/training/losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr double kMostBytesOfTokens = 256 << 20;

}  // namespace

AgreementMeter::AgreementMeter(Teacher& teacher, const HeldOutImages& images, ProcessGroup& group,
                               c10::Device device, Autocast autocast, const LoaderOptions& loader,
                               std::int64_t shared_layers, bool of_exits)
    : teacher_(teacher),
      images_(images),
      group_(group),
      device_(device),
      autocast_(autocast),
      augment_(loader.augment),
      of_exits_(of_exits),
      resolutions_(loader.resolutions),
      backgrounds_(resolutions_.backgrounds, "backgrounds of scenes", loader.cache_bytes,
                   /*side=*/0, loader.decode, loader.on_failure),
      shared_layers_(shared_layers) {
  for (const image::Size size : resolutions_.sizes) {
    views_.push_back({size});
    if (!resolutions_.backgrounds.empty() && has_room(size, augment_.size))
      views_.push_back({size, true});
  }
  if (views_.empty()) views_.push_back({});
  const bool keeps_tokens =
      shared_layers > 0 && !views_.front().size && has_room_for_tokens(teacher.config());
  const AutocastScope scope(autocast_, device_.type());
  for (std::int64_t first = 0; first < images.count(); first += kBatch) {
    if (!keeps_tokens) {
      wanted_.push_back(teacher.logits(batch(first).images));
      continue;
    }
    const TeacherPass seen =
        teacher.look(batch(first).images, {shared_layers, teacher.config().depth});
    grid_ = seen.grid;
    shared_.push_back(seen.tokens.front().clone());
    wanted_.push_back(seen.logits);
  }
  for (const at::Tensor& logits : wanted_) {
    if (!at::isfinite(logits).all().item<bool>()) {
      throw Error(ErrorCode::failed, "the model to learn from gives logits that are not finite",
                  "convert");
    }
  }
}

bool AgreementMeter::has_room_for_tokens(const VitConfig& config) const {
  const auto features = static_cast<double>(config.training_grid().num_tokens() * config.embed_dim);
  return static_cast<double>(images_.count()) * features * sizeof(float) <= kMostBytesOfTokens;
}

Batch AgreementMeter::batch(std::int64_t first) const {
  Batch part = images_.batch(first, std::min(kBatch, images_.count() - first));
  part.images = part.images.to(device_);
  return part;
}

at::Tensor AgreementMeter::shown(const at::Tensor& images, const View& view, std::size_t& scenes) {
  if (!view.size) return images;
  const auto [height, width] = *view.size;
  const auto pixels = static_cast<double>(images.size(2) * images.size(3));
  const double share = pixels / static_cast<double>(height * width);
  const std::int64_t count = std::clamp<std::int64_t>(
      std::llround(share * static_cast<double>(images.size(0))), 1, images.size(0));
  const at::Tensor some = images.narrow(0, 0, count);
  if (view.is_scene) {
    std::vector<at::Tensor> made;
    for (const at::Tensor& image : some.unbind()) {
      // The same scenes at every look, backgrounds in turns.
      RandomStream stream{static_cast<std::uint64_t>(group_.rank()), scenes};
      made.push_back(scene_of(image, augment_, resolutions_, *backgrounds_.load(scenes++).pixels,
                              *view.size, stream));
    }
    return at::stack(made).to(device_);
  }
  return at::_upsample_bicubic2d_aa(some, {height, width}, /*align_corners=*/false);
}

std::vector<at::Tensor> AgreementMeter::found_in(VisionTransformerImpl& student, std::size_t number,
                                                 const View& view, std::size_t& scenes) {
  const AutocastScope scope(autocast_, device_.type());
  if (!shared_.empty()) {
    // Tables that the teacher lacks.
    const bool enters = student.config().pos_embed != teacher_.config().pos_embed;
    const at::Tensor& tokens = shared_[number];
    return {logits_from(student, shared_layers_,
                        enters ? student.enter(shared_layers_, tokens, grid_) : tokens, grid_)};
  }
  const at::Tensor images =
      shown(batch(static_cast<std::int64_t>(number) * kBatch).images, view, scenes);
  if (!of_exits_) return {logits_of(student, images)};
  std::vector<at::Tensor> all;
  for (const ExitOutput& exit : look_at_exits(teacher_, student, images).exits)
    all.push_back(exit.logits);
  return all;
}

at::Tensor AgreementMeter::sums_at(VisionTransformerImpl& student, const View& view) {
  at::Tensor sums = at::zeros({3}, at::device(device_).dtype(at::kDouble));
  std::size_t scenes = 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    for (const at::Tensor& found : found_in(student, i, view, scenes)) {
      const at::Tensor wanted = wanted_[i].narrow(0, 0, found.size(0));
      const at::Tensor same = found.argmax(1).eq(wanted.argmax(1)).sum().to(at::kDouble);
      const auto count = static_cast<double>(found.size(0));
      const at::Tensor divergence = logit_divergence(found, wanted, 1).to(at::kDouble) * count;
      sums += at::stack({same, divergence, at::full_like(same, count)});
    }
  }
  return sums;
}

Agreement AgreementMeter::measure(VisionTransformerImpl& student) {
  const at::NoGradGuard no_grad;
  const bool was_training = student.is_training();
  student.eval();
  Agreement mean;
  for (const View& view : views_) {
    at::Tensor sums = sums_at(student, view);
    group_.sum({sums});
    sums = sums.cpu();
    const double* sum = sums.const_data_ptr<double>();
    const double count = std::max(sum[2], 1.0) * static_cast<double>(views_.size());
    mean.top1 += 100 * sum[0] / count;
    mean.divergence += sum[1] / count;
  }
  student.train(was_training);
  return mean;
}

}  // namespace hydrascope::model::training
