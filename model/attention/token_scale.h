// Corrections for mechanisms without a denominator, whose sums over tokens grow with the image:
// from N = 197 to 8161 Hydra's output by 37 for features of mean 0.5, by 6 for features of mean 0
// (unit variance).
#pragma once

#include "model/attention/token_grid.h"
#include "model/registry/mechanisms.h"

namespace hydrascope::model {

/// The change of a sum c over N tokens in a model that was trained with N_train.
enum class TokenScale {
  none,    ///< as published: right at the training resolution
  linear,  ///< c times N_train / N
  patch,   ///< only the patches' share, times their N_train / N: the class token keeps its own
  sqrt     ///< c times sqrt(N_train / N)
};
/// `scale=none|linear|patch|sqrt`.
ChoiceOption<TokenScale> token_scale_option();

/// `growth`: the power of N with which coherent features grow; less than 1 if the sum already holds
/// a part of 1/N.
TokenWeights token_weights(TokenScale scale, const TokenGrid& training, const TokenGrid& grid,
                           double growth = 1);

/// ln N / ln N_train, at least 1: a factor of scores that sharpens softmax over more tokens, which
/// the same scores spread flatter (Chiang and Cholak 2022, arXiv 2202.12172, multiply scores by ln
/// N). The division by ln N_train leaves a model as it was trained at its own size (Su 2021,
/// kexue.fm/archives/8823). With fewer tokens than in training softmax needs no sharpening. Both
/// counts include the prefix tokens.
double log_scale(const TokenGrid& training, const TokenGrid& grid);

}  // namespace hydrascope::model
