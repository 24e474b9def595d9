#include "model/training/distillation/agreement.h"

#include "kernels/error.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/resolution_views.h"
#include "model/training/distillation/exits_task.h"
#include "model/training/distillation/matching_losses.h"
#include "model/training/losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr double kMostBytesOfTokens = 256 << 20;

void require_finite(const at::Tensor& answers, Target target) {
  if (at::isfinite(answers).all().item<bool>()) return;
  throw Error(ErrorCode::failed,
              "the model to learn from gives " + std::string(name(target)) + " that are not finite",
              "convert");
}

/// Sums over the images of (B, n, D): of each image the mean cosine of its n vectors.
at::Tensor sum_of_cosines(const at::Tensor& student, const at::Tensor& teacher) {
  return (unit_vectors(student) * unit_vectors(teacher)).sum(-1).mean(-1).sum().to(at::kDouble);
}

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
  const bool has_room = has_room_for_tokens();
  const bool keeps_tokens = shared_layers > 0 && !views_.front().size && has_room;
  if (teacher_.target() == Target::features && !has_room) return;
  const AutocastScope scope(autocast_, device_.type());
  for (std::int64_t first = 0; first < images.count(); first += kBatch) {
    end_if_stopped(group_);
    if (keeps_tokens) {
      const TeacherPass seen =
          teacher.look(batch(first).images, {shared_layers, teacher.config().depth});
      grid_ = seen.grid;
      shared_.push_back(seen.tokens.front().clone());
      wanted_.push_back(seen.answers);
    } else {
      wanted_.push_back(teacher.answers(batch(first).images));
    }
    require_finite(wanted_.back(), teacher_.target());
  }
}

bool AgreementMeter::has_room_for_tokens() const {
  const VitConfig& config = teacher_.config();
  const auto features = static_cast<double>(config.training_grid().num_tokens() * config.embed_dim);
  return static_cast<double>(images_.count()) * features * sizeof(float) <= kMostBytesOfTokens;
}

at::Tensor AgreementMeter::wanted_of(std::size_t number) {
  if (!wanted_.empty()) return wanted_[number];
  const AutocastScope scope(autocast_, device_.type());
  at::Tensor answers = teacher_.answers(batch(static_cast<std::int64_t>(number) * kBatch).images);
  require_finite(answers, teacher_.target());
  return answers;
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
  const Target target = teacher_.target();
  if (!shared_.empty()) {
    const at::Tensor& input = shared_[number];
    // Tables that the teacher lacks.
    const bool enters = student.config().pos_embed != teacher_.config().pos_embed;
    return {answers_from(student, shared_layers_,
                         enters ? student.enter(shared_layers_, input, grid_) : input, grid_,
                         target)};
  }
  const Batch part = batch(static_cast<std::int64_t>(number) * kBatch);
  const at::Tensor input = shown(part.images, view, scenes);
  if (of_exits_) {
    std::vector<at::Tensor> all;
    for (const ExitOutput& exit : look_at_exits(teacher_, student, input).exits)
      all.push_back(exit.logits);
    return all;
  }
  const at::Tensor answers = answers_to(student, input, target);
  if (target == Target::logits) return {answers};
  if (view.is_scene) return {answers.narrow(1, 0, 1)};
  return {features_on(answers, student.grid_of(input), teacher_.model().grid_of(part.images))};
}

at::Tensor AgreementMeter::sums_at(VisionTransformerImpl& student, const View& view) {
  at::Tensor sums = at::zeros({4}, at::device(device_).dtype(at::kDouble));
  std::size_t scenes = 0;
  for (std::int64_t first = 0; first < images_.count(); first += kBatch) {
    end_if_stopped(group_);
    const auto number = static_cast<std::size_t>(first / kBatch);
    const at::Tensor all_wanted = wanted_of(number);
    for (const at::Tensor& found : found_in(student, number, view, scenes)) {
      const at::Tensor wanted = all_wanted.narrow(0, 0, found.size(0));
      const at::Tensor count =
          at::full({}, static_cast<double>(found.size(0)), at::device(device_).dtype(at::kDouble));
      if (teacher_.target() == Target::logits) {
        const at::Tensor same = found.argmax(1).eq(wanted.argmax(1)).sum().to(at::kDouble);
        const at::Tensor divergence = logit_divergence(found, wanted, 1).to(at::kDouble) * count;
        sums += at::stack({same, divergence, count, count});
        continue;
      }
      const bool has_patches = found.size(1) > 1;
      const at::Tensor none = at::zeros_like(count);
      const at::Tensor of_pooled = sum_of_cosines(found.narrow(1, 0, 1), wanted.narrow(1, 0, 1));
      const at::Tensor of_patches =
          has_patches ? sum_of_cosines(found.slice(1, 1), wanted.slice(1, 1)) : none;
      sums += at::stack({of_pooled, of_patches, count, has_patches ? count : none});
    }
  }
  return sums;
}

Agreement AgreementMeter::measure(VisionTransformerImpl& student) {
  const at::NoGradGuard no_grad;
  const bool was_training = student.is_training();
  student.eval();
  /// The mean of a measure over the views that have it.
  struct Mean {
    double sum = 0;
    int views = 0;
    void add(double of_view, double images) {
      if (images == 0) return;
      sum += of_view / images;
      ++views;
    }
    [[nodiscard]] double value() const { return sum / std::max(views, 1); }
  };
  Mean first;
  Mean second;
  for (const View& view : views_) {
    at::Tensor sums = sums_at(student, view);
    group_.sum({sums});
    sums = sums.cpu();
    const double* sum = sums.const_data_ptr<double>();
    first.add(sum[0], sum[2]);
    second.add(sum[1], sum[3]);
  }
  student.train(was_training);
  Agreement agreement;
  agreement.target = teacher_.target();
  if (agreement.target == Target::logits) {
    agreement.top1 = 100 * first.value();
    agreement.divergence = second.value();
  } else {
    agreement.pooled_cosine = first.value();
    agreement.patch_cosine = second.value();
  }
  return agreement;
}

}  // namespace hydrascope::model::training
