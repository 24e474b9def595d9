// Sharper softmax over more tokens: with N keys instead of N_train the same scores give a flatter
// distribution, and what a query looks for drowns in the rest.
#pragma once

#include "model/attention/registry.h"
#include "model/attention/token_grid.h"

namespace hydrascope::model {

/// `logit_scale=none|log`. log: scores times ln N / ln N_train (Chiang and Cholak 2022, arXiv
/// 2202.12172, multiply by ln N; the constant keeps a model that was trained without it as it is at
/// its own size: Su 2021, kexue.fm/archives/8823). Never below 1: with fewer tokens than in training
/// nothing drowns, and the published model stays.
MechanismOption logit_scale_option();
/// The factor of the scores. Both counts include the prefix tokens; tokens that `--keep-tokens`
/// drops on the way still count.
double logit_scale(const MechanismOptions& options, const TokenGrid& training,
                   const TokenGrid& grid);

/// ln N / ln N_train, at least 1.
double log_scale(const TokenGrid& training, const TokenGrid& grid);

}  // namespace hydrascope::model
