// The sums over the tokens of earlier frames, carried along as a recurrent network carries its state
// (Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236, section 3.4):
//   S_t = (sum over the frame + lambda w_(t-1) S_(t-1)) / w_t      w_t = 1 + lambda w_(t-1)
// S is all that queries read: linear attention's S and z, Hydra's global vector. The weighted mean in
// place of a growing sum keeps a still video where it is, also for mechanisms without a denominator.
// Maps in logarithms have their sums at different maxima, which are brought to one. A layer keeps as
// much as it holds for one picture, whatever the number of frames.
#include "model/attention/memories/frame_memory.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

const NumberOption kLambda("lambda", "0.7", 0, 0.99,
                           "weight of a frame over the weight of the next one; 0: no memory");

class StateMemory final : public FrameMemory {
 public:
  explicit StateMemory(double lambda) : lambda_(lambda) {}

  torch::Tensor mix(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                    const torch::Tensor& v, const TokenGrid& grid, Kernels kernels) override {
    if (lambda_ == 0) return mixer.mix(q, k, v, grid, kernels);
    return mixer.mix_state(q, k, v, grid, [this](MixerState& state) { carry(state); });
  }
  torch::Tensor look(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const TokenGrid& grid, Kernels /*kernels*/) override {
    return mixer.mix_state(q, k, v, grid, [this](MixerState& state) { average(state); });
  }
  void join(TokenMixer& mixer, const torch::Tensor& q, const torch::Tensor& k,
            const torch::Tensor& v, const TokenGrid& grid) override {
    if (lambda_ == 0) return;
    mixer.mix_state(q, k, v, grid, [this](MixerState& state) { carry(state); });
  }
  void forget() override { weight_ = 0; }
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form(const TokenMixer& mixer) const override {
    std::unique_ptr<KernelForm> form = mixer.kernel_form();
    if (lambda_ == 0 || !form) return form;
    return form->carrying(lambda_);
  }

 private:
  /// The frame's sums become the mean with what is kept.
  void average(MixerState& state) const {
    if (weight_ == 0) return;
    const double weight = 1 + lambda_ * weight_;
    torch::Tensor values = state.values / weight;
    torch::Tensor before = kept_.values * (lambda_ * weight_ / weight);
    if (state.logarithm.defined()) {
      const torch::Tensor most = at::maximum(state.logarithm, kept_.logarithm);
      values = values * (state.logarithm - most).exp();
      before = before * (kept_.logarithm - most).exp();
      state.logarithm = most;
    }
    state.values = values + before;
  }
  /// The same, and the mean is kept.
  void carry(MixerState& state) {
    average(state);
    weight_ = 1 + lambda_ * weight_;
    kept_ = state;
  }

  double lambda_;
  double weight_ = 0;  ///< w of what is kept
  MixerState kept_;
};

const MemoryRegistration kState({
    .name = "state",
    .summary = "sums over tokens, as a mean with those of earlier frames; takes no time that grows",
    .citation = "Katharopoulos et al. 2020, Transformers are RNNs, arXiv 2006.16236, section 3.4",
    .equation =
        "S_t = (sum over the frame + lambda w_(t-1) S_(t-1)) / w_t, w_t = 1 + lambda w_(t-1)",
    .options = {kLambda},
    .keeps = MemoryEntry::Keeps::state,
    .make = [](const MechanismOptions& options) -> std::unique_ptr<FrameMemory> {
      return std::make_unique<StateMemory>(kLambda(options));
    },
});

}  // namespace
}  // namespace hydrascope::model
