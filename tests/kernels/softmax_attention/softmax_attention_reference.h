// The naive twin of softmax_attention.h and few_queries.h: all scores of a query at once, in float64.
#pragma once

#include "kernels/softmax_attention/softmax_attention.h"

#include <cstdint>
#include <vector>

namespace hydrascope::kernels::softmax_attention {

/// Scores of head h become factor[h] * s, and those of keys from `first` on factor[h] * s + bias[h];
/// null: as they are. `sees`: which keys a query sees, (rows, N), 0 or 1; null: all.
struct Weighing {
  const float* factor = nullptr;
  const float* bias = nullptr;
  std::int64_t first = 0;
  const std::uint8_t* sees = nullptr;
};

/// What `attend` leaves in y for the unpacked k and v (N, H * d), unrounded: (rows, H * d). The same
/// of few_queries.h, whose parts `weighing` tells apart.
template <class T>
std::vector<double> softmax_attention_reference(const Shape& shape, const T* q,
                                                std::int64_t q_stride, std::int64_t rows,
                                                const T* k, const T* v, std::int64_t stride,
                                                const Weighing& weighing = {});

extern template std::vector<double> softmax_attention_reference(const Shape&, const float*,
                                                                std::int64_t, std::int64_t,
                                                                const float*, const float*,
                                                                std::int64_t, const Weighing&);
extern template std::vector<double> softmax_attention_reference(const Shape&, const BFloat16*,
                                                                std::int64_t, std::int64_t,
                                                                const BFloat16*, const BFloat16*,
                                                                std::int64_t, const Weighing&);

}  // namespace hydrascope::kernels::softmax_attention
