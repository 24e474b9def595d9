#include "tests/kernels/token_rows/token_rows_reference.h"

namespace hydrascope::kernels::token_rows {

template <class T>
std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<T>& p) {
  std::vector<double> x;
  for (std::int64_t image = 0; image < p.images; ++image)
    for (std::int64_t i = 0; i < p.num_prefix * p.dim; ++i)
      x.push_back(static_cast<double>(p.prefix[i]));
  return x;
}

template <class T>
std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<T>& p) {
  std::vector<double> y;
  for (std::int64_t image = 0; image < p.images; ++image) {
    for (std::int64_t i = 0; i < p.dim; ++i) {
      double sum = 0;
      for (std::int64_t token = p.num_prefix; token < p.tokens; ++token)
        sum += static_cast<double>(
            static_cast<float>(p.x[image * p.image_stride + token * p.x_stride + i]));
      y.push_back(sum / static_cast<double>(p.tokens - p.num_prefix));
    }
  }
  return y;
}

template std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<float>&);
template std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<BFloat16>&);
template std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<Float16>&);
template std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<float>&);
template std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<BFloat16>&);
template std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<Float16>&);

}  // namespace hydrascope::kernels::token_rows
