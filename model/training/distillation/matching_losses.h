// How far a student's attention is from its teacher's: the losses of a conversion's stages. All are
// means over the images, so that the mean over equal parts of a batch is the whole batch's.
#pragma once

#include "model/attention/attention.h"
#include "model/training/data/random_stream.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model::training {

/// Cross-entropy of attention rows, the loss of Hedgehog's feature maps (Zhang et al. 2024, arXiv
/// 2402.04347, equation 4): mean over the rows of
///   L_i = -sum_j P_ij log A_ij = KL(P_i || A_i) + H(P_i)
/// `teacher` P and `student` A are (B, H, n, N). A weight of 0 counts as 1e-8.
at::Tensor row_cross_entropy(const at::Tensor& student, const at::Tensor& teacher);
/// H(P), mean over the rows: the lowest possible loss of a student.
at::Tensor row_entropy(const at::Tensor& teacher);

/// Mean over the images of |student - teacher|^2 / |teacher|^2; the first dimension counts images.
at::Tensor relative_error(const at::Tensor& student, const at::Tensor& teacher);

/// The relative error of (B, n, D) tokens plus `cls_weight` times the error of the first
/// `num_class_tokens` of them, which decide and are one of hundreds. Without such tokens, or with
/// no others, the first term alone.
at::Tensor token_error(const at::Tensor& student, const at::Tensor& teacher,
                       std::int64_t num_class_tokens, double cls_weight);

/// `count` token indices of `grid`, the prefix tokens among them, the patches drawn without
/// repetition from `random`; int64, ascending. All tokens when there are no more than `count`.
at::Tensor sample_queries(const TokenGrid& grid, std::int64_t count, RandomStream random);

}  // namespace hydrascope::model::training
