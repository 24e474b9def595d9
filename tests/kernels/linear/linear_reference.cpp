#include "tests/kernels/linear/linear_reference.h"

#include <cmath>

namespace hydrascope::kernels::linear {

template <class T>
std::vector<double> linear_reference(const LinearParams<T>& p, const std::vector<float>& weight) {
  const std::int64_t out = p.weight->out();
  const std::int64_t in = p.weight->in();
  std::vector<double> y(static_cast<std::size_t>(p.rows * out));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = p.bias == nullptr ? 0.0 : static_cast<double>(p.bias[o]);
      for (std::int64_t k = 0; k < in; ++k)
        sum += static_cast<double>(static_cast<float>(p.x[row * p.x_stride + k])) *
               static_cast<double>(weight[static_cast<std::size_t>(o * in + k)]);
      if (p.epilogue == Epilogue::gelu) sum = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
      if (p.epilogue == Epilogue::add)
        sum += static_cast<double>(static_cast<float>(p.y[row * p.y_stride + o]));
      y[static_cast<std::size_t>(row * out + o)] = sum;
    }
  }
  return y;
}

template std::vector<double> linear_reference(const LinearParams<float>&,
                                              const std::vector<float>&);
template std::vector<double> linear_reference(const LinearParams<BFloat16>&,
                                              const std::vector<float>&);

}  // namespace hydrascope::kernels::linear
