#include "model/attention/memories/frame_memory.h"

#include <utility>

namespace hydrascope::model {

torch::Tensor FrameMemory::mix(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const TokenGrid& grid, Kernels kernels) {
  torch::Tensor y = look(mixer, q, k, v, grid, kernels);
  join(mixer, q, k, v, grid);
  return y;
}

RememberingMixer::RememberingMixer(std::unique_ptr<TokenMixer> mixer,
                                   std::unique_ptr<FrameMemory> memory)
    : mixer_(std::move(mixer)), memory_(std::move(memory)) {}

torch::Tensor RememberingMixer::mix(const torch::Tensor& q, const torch::Tensor& k,
                                    const torch::Tensor& v, const TokenGrid& grid,
                                    Kernels kernels) {
  return memory_->mix(*mixer_, q, k, v, grid, kernels);
}

torch::Tensor RememberingMixer::attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                                               const TokenGrid& grid, std::int64_t first,
                                               std::int64_t count) {
  return mixer_->attention_rows(q, k, grid, first, count);
}

torch::Tensor RememberingMixer::mix_rows(const torch::Tensor& q, const torch::Tensor& k,
                                         const torch::Tensor& v, const TokenGrid& grid,
                                         std::int64_t first, std::int64_t count) {
  return mixer_->mix_rows(q, k, v, grid, first, count);
}

torch::Tensor RememberingMixer::weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                                              const torch::Tensor& v, const torch::Tensor& g,
                                              const TokenGrid& grid, std::int64_t first,
                                              std::int64_t count) {
  return mixer_->weighted_rows(q, k, v, g, grid, first, count);
}

}  // namespace hydrascope::model
