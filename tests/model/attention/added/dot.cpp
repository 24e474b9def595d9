// The mechanism: linear attention without a feature map and without a denominator.
#include "dot_mixing.h"
#include "model/attention/attention.h"

#include <ATen/ATen.h>

namespace hydrascope::testing {
namespace {

class DotForm final : public model::KernelForm {
 public:
  [[nodiscard]] model::inference::AnyMixing on_cpu(const model::inference::MixingSite& site,
                                                   kernels::Storage storage) const override {
    return model::inference::make_mixing<DotMixing>(storage, site);
  }
};

class DotMixer final : public model::TokenMixer {
 public:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const model::TokenGrid& grid, model::Kernels) override {
    return mix_rows(q, k, v, grid, 0, q.size(2));
  }
  torch::Tensor mix_rows(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const model::TokenGrid&, std::int64_t first, std::int64_t count) override {
    const torch::Tensor sums =
        model::to_compute_type(k).transpose(2, 3).matmul(model::to_compute_type(v));
    const torch::Tensor rows = model::to_compute_type(q.narrow(2, first, count)).matmul(sums);
    return model::merge_heads(rows / static_cast<double>(k.size(2))).to(v.scalar_type());
  }
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const model::TokenGrid&, std::int64_t first,
                               std::int64_t count) override {
    const torch::Tensor rows = model::to_compute_type(q.narrow(2, first, count));
    return rows.matmul(model::to_compute_type(k).transpose(2, 3)) / static_cast<double>(k.size(2));
  }
  [[nodiscard]] std::unique_ptr<model::KernelForm> kernel_form() const override {
    return std::make_unique<DotForm>();
  }
};

const model::MechanismRegistration kDot({
    .name = "test_dot",
    .summary = "linear attention with phi(x) = x and no denominator",
    .citation = "these tests",
    .map_definition = "A_ij = q_i.k_j / N",
    .normalised = true,
    .cost =
        [](const model::MixerSize& size, const model::MechanismOptions&) {
          const double elements =
              static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
          return model::MixerCost{4 * elements * static_cast<double>(size.head_dim()),
                                  4 * elements * static_cast<double>(size.bytes_per_element), 0};
        },
    .make = [](const model::TokenMixerArguments&) -> std::unique_ptr<model::TokenMixer> {
      return std::make_unique<DotMixer>();
    },
});

}  // namespace
}  // namespace hydrascope::testing
