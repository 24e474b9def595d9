// The naive twin of hydra.h: one token after the other, in float64.
#pragma once

#include "kernels/hydra/hydra.h"

#include <vector>

namespace hydrascope::kernels::hydra {

struct ProjectResult {
  std::vector<double> q_hat;  ///< (query_rows, dim)
  std::vector<double> sum;    ///< (dim)
};

/// What `project` writes, unrounded.
template <class T>
ProjectResult project_reference(const ProjectParams<T>& params);
extern template ProjectResult project_reference(const ProjectParams<float>&);
extern template ProjectResult project_reference(const ProjectParams<BFloat16>&);

std::vector<double> combine_reference(const float* sums, std::int64_t count, std::int64_t dim,
                                      float scale, const float* feature_scale);

/// (rows, dim)
template <class T>
std::vector<double> gate_reference(const T* q_hat, std::int64_t q_hat_stride, const float* g,
                                   std::int64_t rows, std::int64_t dim);
extern template std::vector<double> gate_reference(const float*, std::int64_t, const float*,
                                                   std::int64_t, std::int64_t);
extern template std::vector<double> gate_reference(const BFloat16*, std::int64_t, const float*,
                                                   std::int64_t, std::int64_t);

}  // namespace hydrascope::kernels::hydra
