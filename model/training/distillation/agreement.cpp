#include "model/training/distillation/agreement.h"

#include "kernels/error.h"
#include "model/training/losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace hydrascope::model::training {
namespace {

constexpr std::int64_t kBatch = 32;

}  // namespace

AgreementMeter::AgreementMeter(Teacher& teacher, const HeldOutImages& images, ProcessGroup& group,
                               c10::Device device, Autocast autocast)
    : images_(images), group_(group), device_(device), autocast_(autocast) {
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

Agreement AgreementMeter::measure(VisionTransformerImpl& student) {
  const at::NoGradGuard no_grad;
  const bool was_training = student.is_training();
  student.eval();
  at::Tensor sums = at::zeros({3}, at::device(device_).dtype(at::kDouble));
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const at::Tensor images = batch(static_cast<std::int64_t>(i) * kBatch).images;
    const AutocastScope scope(autocast_, device_.type());
    const at::Tensor found = to_compute_type(student.forward(images));
    const at::Tensor same = found.argmax(1).eq(wanted_[i].argmax(1)).sum().to(at::kDouble);
    const auto count = static_cast<double>(found.size(0));
    const at::Tensor divergence = logit_divergence(found, wanted_[i], 1).to(at::kDouble) * count;
    sums += at::stack({same, divergence, at::full_like(same, count)});
  }
  student.train(was_training);
  group_.sum({sums});
  sums = sums.cpu();
  const double* sum = sums.const_data_ptr<double>();
  const double count = std::max(sum[2], 1.0);
  return {100 * sum[0] / count, sum[1] / count};
}

}  // namespace hydrascope::model::training
