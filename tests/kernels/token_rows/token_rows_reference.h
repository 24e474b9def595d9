// The naive twin of token_rows_cuda.h, in float64; the tensors are on the host.
#pragma once

#include "kernels/token_rows/token_rows_cuda.h"

#include <vector>

namespace hydrascope::kernels::token_rows {

/// What `prefix_tokens` writes, unrounded: (images, num_prefix, dim).
template <class T>
std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<T>& params);

/// What `mean_of_patches` writes, unrounded: (images, dim).
template <class T>
std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<T>& params);

}  // namespace hydrascope::kernels::token_rows
