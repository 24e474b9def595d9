// The mechanism: linear attention without a feature map and without a denominator.
#include "model/inference/cpu/mixings/dot.h"

#include "model/attention/attention.h"

#include <ATen/ATen.h>

namespace hydrascope::model {
namespace {

class DotForm final : public KernelForm {
 public:
  [[nodiscard]] inference::AnyMixing on_cpu(const inference::MixingSite& site,
                                            kernels::Storage storage) const override {
    return inference::make_mixing<inference::DotMixing>(storage, site);
  }
};

class DotMixer final : public TokenMixer {
 public:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const TokenGrid& grid, Kernels) override {
    return mix_rows(q, k, v, grid, 0, q.size(2));
  }
  torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const TokenGrid&, std::int64_t first, std::int64_t count) override {
    const torch::Tensor sums = to_compute_type(k).transpose(2, 3).matmul(to_compute_type(v));
    const torch::Tensor rows = to_compute_type(q.narrow(2, first, count)).matmul(sums);
    return merge_heads(rows / static_cast<double>(k.size(2))).to(v.scalar_type());
  }
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k, const TokenGrid&,
                               std::int64_t first, std::int64_t count) override {
    const torch::Tensor rows = to_compute_type(q.narrow(2, first, count));
    return rows.matmul(to_compute_type(k).transpose(2, 3)) / static_cast<double>(k.size(2));
  }
  [[nodiscard]] std::unique_ptr<KernelForm> kernel_form() const override {
    return std::make_unique<DotForm>();
  }
};

const MechanismRegistration kDot({
    .name = "dot",
    .summary = "linear attention with phi(x) = x and no denominator",
    .citation = "the example of docs/adding_a_mechanism.md",
    .map_definition = "A_ij = q_i.k_j / N",
    .normalised = true,
    .cost =
        [](const MixerSize& size, const MechanismOptions&) {
          const double elements =
              static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
          return MixerCost{4 * elements * static_cast<double>(size.head_dim()),
                           4 * elements * static_cast<double>(size.bytes_per_element), 0};
        },
    .make = [](const TokenMixerArguments&) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<DotMixer>();
    },
});

}  // namespace
}  // namespace hydrascope::model
