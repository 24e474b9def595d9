// The losses of training. Every loss is a differentiable scalar, the mean over the images, computed
// in float32 (float64 stays).
#pragma once

#include <ATen/core/Tensor.h>

namespace hydrascope::model::training {

/// logits (B, C), targets int64 (B): -log p(target), with a share `smoothing` of the probability
/// spread over all classes (Szegedy et al. 2016, arXiv 1512.00567).
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, double smoothing = 0);

/// logits, targets (B, C), rows of `targets` sum to 1 (mixup, cutmix): -sum_c t_c log p_c.
at::Tensor soft_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// T^2 KL(softmax(teacher / T) | softmax(student / T)) (Hinton et al. 2015, arXiv 1503.02531);
/// logits (B, C). No gradient reaches the teacher.
at::Tensor logit_divergence(const at::Tensor& student, const at::Tensor& teacher,
                            double temperature = 1);

/// KL(targets | softmax(logits)); rows of `targets` (B, C) sum to 1 and are no part of a graph.
at::Tensor divergence_from(const at::Tensor& logits, const at::Tensor& targets);

/// DeiT (Touvron et al. 2021, arXiv 2012.12877), equation 2:
/// (1 - weight) label_loss + weight T^2 KL. `student` (B, C) are the distillation head's logits, or
/// the only ones.
at::Tensor soft_distillation(const at::Tensor& label_loss, const at::Tensor& student,
                             const at::Tensor& teacher, double temperature, double weight);

/// The same, equation 3 (there `weight` is 1/2): (1 - weight) label_loss + weight times the
/// cross-entropy with the teacher's class as the label.
at::Tensor hard_distillation(const at::Tensor& label_loss, const at::Tensor& student,
                             const at::Tensor& teacher, double weight = 0.5);

}  // namespace hydrascope::model::training
