// How far a student is from its teacher: the losses of a conversion's stages. All are
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

/// Vectors (..., D) of length 1, of the compute type; a zero stays.
at::Tensor unit_vectors(const at::Tensor& x);

/// Mean over all vectors of 1 - cos of two vectors (..., D), as half the squared distance of unit
/// vectors: 0 for equal vectors whatever the rounding.
at::Tensor cosine_distance(const at::Tensor& student, const at::Tensor& teacher);

/// How far the similarities of an image's patches are from the teacher's: the mean over the images
/// and all pairs of patches of (x_i . x_j - t_i . t_j)^2, unit vectors of (B, P, D). The Gram
/// anchoring of DINOv3 (Simeoni et al. 2025, arXiv 2508.10104, section 4.2).
at::Tensor gram_error(const at::Tensor& student, const at::Tensor& teacher);

/// `count` token indices of `grid`, the prefix tokens among them, the patches drawn without
/// repetition from `random`; int64, ascending. All tokens when there are no more than `count`.
at::Tensor sample_queries(const TokenGrid& grid, std::int64_t count, RandomStream random);

}  // namespace hydrascope::model::training
