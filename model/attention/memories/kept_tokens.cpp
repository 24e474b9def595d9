#include "model/attention/memories/kept_tokens.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

torch::Tensor mix_beside_kept(TokenMixer& mixer, const AttentionImpl::Projected& frame,
                              const TokenGrid& grid, Kernels kernels,
                              const std::vector<KeptTokens>& kept, double decay) {
  if (kept.empty()) return mixer.mix(frame.q, frame.k, frame.v, grid, kernels);
  std::vector<torch::Tensor> keys;
  std::vector<torch::Tensor> values;
  std::vector<torch::Tensor> offsets;
  for (const KeptTokens& tokens : kept) {
    keys.push_back(tokens.k);
    values.push_back(tokens.v);
    const double age = static_cast<double>(keys.size());
    offsets.push_back(at::full({tokens.k.size(2)}, -decay * age, frame.q.options()));
  }
  OtherTokens others{at::cat(keys, 2), at::cat(values, 2), {}};
  if (decay > 0) others.offset = at::cat(offsets);
  return mixer.mix_beside(frame.q, frame.k, frame.v, grid, others);
}

}  // namespace hydrascope::model
