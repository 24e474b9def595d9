// Transformer-to-RNN (Kasai et al. 2021, Finetuning Pretrained Transformers into RNNs, EMNLP,
// equation 5): linear attention with a learned map phi(x) = relu(x W + b). Trained by swapping the
// map in and fine-tuning everything, or by Hedgehog's distillation first ("T2R-HH"). The
// initialisation, identity plus small noise, is this project's.
#include "model/attention/linear/learned_feature_map.h"

namespace hydrascope::model {
namespace {

const MechanismRegistration kT2r(learned_mechanism(
    {.name = "t2r",
     .aliases = {"transformer_to_rnn"},
     .summary = "linear attention with a learned phi = ReLU(x W + b), O(N D d)",
     .citation = "Kasai et al. 2021, Finetuning Pretrained Transformers into RNNs, EMNLP",
     .map_definition = "A_ij = phi(q_i).phi(k_j) / (sum_t phi(q_i).phi(k_t) + 1e-6), learned phi"},
    /*noise=*/0.01,
    [](const MechanismOptions&) { return kernels::linear_attention::Feature::relu; }));

}  // namespace
}  // namespace hydrascope::model
