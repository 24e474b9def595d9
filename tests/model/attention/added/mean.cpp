// The mechanism: every token gets the mean of all values.
#include "mean_mixing.h"
#include "model/attention/attention.h"

#include <ATen/ATen.h>

namespace hydrascope::testing {
namespace {

class MeanForm final : public model::KernelForm {
 public:
  [[nodiscard]] model::inference::AnyMixing on_cpu(const model::inference::MixingSite& site,
                                                   kernels::Storage storage) const override {
    return model::inference::make_mixing<MeanMixing>(storage, site);
  }
};

class MeanMixer final : public model::TokenMixer {
 public:
  torch::Tensor mix(const torch::Tensor&, const torch::Tensor&, const torch::Tensor& v,
                    const model::TokenGrid&, model::Kernels) override {
    return model::merge_heads(v.mean(2, /*keepdim=*/true).expand_as(v));
  }
  torch::Tensor attention_rows(const torch::Tensor& q, const torch::Tensor& k,
                               const model::TokenGrid&, std::int64_t, std::int64_t count) override {
    const std::int64_t tokens = k.size(2);
    return at::full({q.size(0), q.size(1), count, tokens}, 1.0 / static_cast<double>(tokens),
                    k.options());
  }
  [[nodiscard]] std::unique_ptr<model::KernelForm> kernel_form() const override {
    return std::make_unique<MeanForm>();
  }
};

const model::MechanismRegistration kMean({
    .name = "test_mean",
    .summary = "the mean of all values",
    .citation = "these tests",
    .map_definition = "A_ij = 1 / N",
    .rows_sum_to_one = true,
    .non_negative = true,
    .normalised = true,
    .cost =
        [](const model::MixerSize& size, const model::MechanismOptions&) {
          const double elements =
              static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
          return model::MixerCost{elements,
                                  2 * elements * static_cast<double>(size.bytes_per_element), 0};
        },
    .make = [](const model::TokenMixerArguments&) -> std::unique_ptr<model::TokenMixer> {
      return std::make_unique<MeanMixer>();
    },
});

}  // namespace
}  // namespace hydrascope::testing
