#include "model/training/losses.h"

#include "model/attention/compute_type.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  return at::cross_entropy_loss(to_compute_type(logits), targets, /*weight=*/{},
                                at::Reduction::Mean, /*ignore_index=*/-100, smoothing);
}

at::Tensor soft_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return -(targets * at::log_softmax(to_compute_type(logits), -1)).sum(-1).mean();
}

at::Tensor logit_divergence(const at::Tensor& student, const at::Tensor& teacher,
                            double temperature) {
  const at::Tensor log_p = at::log_softmax(to_compute_type(teacher.detach()) / temperature, -1);
  const at::Tensor log_q = at::log_softmax(to_compute_type(student) / temperature, -1);
  return temperature * temperature * (log_p.exp() * (log_p - log_q)).sum(-1).mean();
}

at::Tensor divergence_from(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor entropy = -at::xlogy(targets, targets).sum(-1).mean();
  return soft_cross_entropy(logits, targets) - entropy;
}

at::Tensor soft_distillation(const at::Tensor& label_loss, const at::Tensor& student,
                             const at::Tensor& teacher, double temperature, double weight) {
  return (1 - weight) * label_loss + weight * logit_divergence(student, teacher, temperature);
}

at::Tensor hard_distillation(const at::Tensor& label_loss, const at::Tensor& student,
                             const at::Tensor& teacher, double weight) {
  return (1 - weight) * label_loss + weight * cross_entropy(student, teacher.argmax(-1));
}

}  // namespace hydrascope::model::training
