#include "model/training/distillation/agreement.h"

#include "kernels/error.h"
#include "model/training/losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kBatch = 32;

}  // namespace

AgreementMeter::AgreementMeter(Teacher& teacher, const HeldOutImages& images, ProcessGroup& group,
                               c10::Device device, Autocast autocast,
                               std::vector<image::Size> sizes)
    : images_(images),
      group_(group),
      device_(device),
      autocast_(autocast),
      sizes_(std::move(sizes)) {
  const AutocastScope scope(autocast_, device_.type());
  for (std::int64_t first = 0; first < images.count(); first += kBatch)
    wanted_.push_back(teacher.logits(batch(first).images));
  for (const at::Tensor& logits : wanted_) {
    if (!at::isfinite(logits).all().item<bool>()) {
      throw Error(ErrorCode::failed, "the model to learn from gives logits that are not finite",
                  "convert");
    }
  }
}

Batch AgreementMeter::batch(std::int64_t first) const {
  Batch part = images_.batch(first, std::min(kBatch, images_.count() - first));
  part.images = part.images.to(device_);
  return part;
}

at::Tensor AgreementMeter::sums_at(VisionTransformerImpl& student,
                                   std::optional<image::Size> size) const {
  at::Tensor sums = at::zeros({3}, at::device(device_).dtype(at::kDouble));
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    at::Tensor images = batch(static_cast<std::int64_t>(i) * kBatch).images;
    std::int64_t count = images.size(0);
    if (size) {
      const auto pixels = static_cast<double>(images.size(2) * images.size(3));
      const double share = pixels / static_cast<double>(size->height * size->width);
      count = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(count)), 1, count);
      images = at::_upsample_bicubic2d_aa(images.narrow(0, 0, count), {size->height, size->width},
                                          /*align_corners=*/false);
    }
    const AutocastScope scope(autocast_, device_.type());
    const at::Tensor wanted = wanted_[i].narrow(0, 0, count);
    const at::Tensor found = to_compute_type(student.forward(images));
    const at::Tensor same = found.argmax(1).eq(wanted.argmax(1)).sum().to(at::kDouble);
    const auto images_seen = static_cast<double>(count);
    const at::Tensor divergence = logit_divergence(found, wanted, 1).to(at::kDouble) * images_seen;
    sums += at::stack({same, divergence, at::full_like(same, images_seen)});
  }
  return sums;
}

Agreement AgreementMeter::measure(VisionTransformerImpl& student) {
  const at::NoGradGuard no_grad;
  const bool was_training = student.is_training();
  student.eval();
  std::vector<std::optional<image::Size>> sizes(sizes_.begin(), sizes_.end());
  if (sizes.empty()) sizes.emplace_back();
  Agreement mean;
  for (const std::optional<image::Size>& size : sizes) {
    at::Tensor sums = sums_at(student, size);
    group_.sum({sums});
    sums = sums.cpu();
    const double* sum = sums.const_data_ptr<double>();
    const double count = std::max(sum[2], 1.0) * static_cast<double>(sizes.size());
    mean.top1 += 100 * sum[0] / count;
    mean.divergence += sum[1] / count;
  }
  student.train(was_training);
  return mean;
}

}  // namespace hydrascope::model::training
