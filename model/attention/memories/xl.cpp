// Keys and values of the last frames beside the frame's own (Dai et al. 2019, Transformer-XL, arXiv
// 1901.02860, equation 3 and the two lines before it, with frames in the place of segments):
//   y_i = softmax_j(q_i . k_j / sqrt(d) - decay age_j) v_j     over the tokens of 1 + frames frames
// Age is in frames, 0 of the frame itself. All tokens are kept, the prefix too: twice the same tokens
// are the same distribution, so a still video has the answer of its picture.
#include "model/attention/memories/kept_tokens.h"

#include <ATen/ATen.h>

#include <deque>
#include <utility>

namespace hydrascope::model {
namespace {

const IntegerOption kFrames("frames", 1, 0, 64, "number of earlier frames; 0: no memory");
const NumberOption kDecay("decay", "0", 0, 100, "subtracted from scores for each frame of age");

class XlMemory final : public FrameMemory {
 public:
  XlMemory(std::int64_t frames, double decay) : frames_(frames), decay_(decay) {}

  torch::Tensor look(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const TokenGrid& grid, Kernels kernels) override {
    return mix_beside_kept(mixer, {q, k, v}, grid, kernels, {kept_.begin(), kept_.end()}, decay_);
  }
  void join(TokenMixer& /*mixer*/, const torch::Tensor& /*q*/, const torch::Tensor& k,
            const torch::Tensor& v, const TokenGrid& /*grid*/) override {
    kept_.push_front({k.clone(), v.clone()});
    if (std::ssize(kept_) > frames_) kept_.pop_back();
  }
  void forget() override { kept_.clear(); }

 private:
  std::int64_t frames_;
  double decay_;
  std::deque<KeptTokens> kept_;  ///< the newest first
};

const MemoryRegistration kXl({
    .name = "xl",
    .summary = "keys and values of the last frames beside the frame's own",
    .citation = "Dai et al. 2019, Transformer-XL, arXiv 1901.02860",
    .equation = "y_i = softmax_j(q_i . k_j / sqrt(d) - decay age_j) v_j over 1 + frames frames",
    .options = {kFrames, kDecay},
    .keeps = MemoryEntry::Keeps::tokens,
    .make = [](const MechanismOptions& options) -> std::unique_ptr<FrameMemory> {
      return std::make_unique<XlMemory>(kFrames(options), kDecay(options));
    },
});

}  // namespace
}  // namespace hydrascope::model
