#include "tests/kernels/local_convolution/local_convolution_reference.h"

namespace hydrascope::kernels::local_convolution {

template <class T>
std::vector<double> add_reference(const AddParams<T>& p) {
  const auto value = [](T x) { return static_cast<double>(static_cast<float>(x)); };
  const std::int64_t reach = p.shape.size / 2;
  std::vector<double> sums;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const std::int64_t row = (p.first + i) / p.shape.columns;
    const std::int64_t column = (p.first + i) % p.shape.columns;
    for (std::int64_t f = 0; f < p.shape.dim; ++f) {
      double sum = value(p.y[i * p.y_stride + f]);
      for (std::int64_t dy = -reach; dy <= reach; ++dy)
        for (std::int64_t dx = -reach; dx <= reach; ++dx) {
          const std::int64_t r = row + dy;
          const std::int64_t c = column + dx;
          if (r < 0 || r >= p.shape.rows || c < 0 || c >= p.shape.columns) continue;
          const std::int64_t tap = (dy + reach) * p.shape.size + dx + reach;
          sum += static_cast<double>(p.weight[tap * p.shape.dim + f]) *
                 value(p.v[(r * p.shape.columns + c) * p.v_stride + f]);
        }
      sums.push_back(sum);
    }
  }
  return sums;
}

template std::vector<double> add_reference(const AddParams<float>&);
template std::vector<double> add_reference(const AddParams<BFloat16>&);
template std::vector<double> add_reference(const AddParams<Float16>&);

}  // namespace hydrascope::kernels::local_convolution
