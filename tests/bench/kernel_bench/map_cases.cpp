#include "kernels/attention_map/attention_map_cuda.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
namespace maps = kernels::attention_map;
namespace linear = kernels::linear_attention;

constexpr std::int64_t kTokens = 8161;
constexpr std::int64_t kHeads = 12;
constexpr std::int64_t kDim = 768;
constexpr double kValues = static_cast<double>(kTokens * kDim);

/// k and v lie in the rows of 3 D that a product of all three leaves.
struct Tensors {
  DeviceMemory<BFloat16> qkv = random_memory<BFloat16>(kTokens * 3 * kDim, 1);
  DeviceMemory<float> weight = random_memory<float>(kDim, 2);
  DeviceMemory<float> heat = zeroed_memory<float>(kHeads * kTokens);
};

Case hydra_map_case() {
  return {"hydra_map",
          "N 8161, D 768",
          "bfloat16",
          2 * kValues * sizeof(BFloat16) + kTokens * sizeof(float),
          6 * kValues,
          [](Stream) -> Work {
            auto t = std::make_shared<Tensors>();
            maps::HydraMapParams<BFloat16> params{};
            params.weight = t->weight.data();
            params.k = t->qkv.data() + kDim;
            params.v = t->qkv.data() + 2 * kDim;
            params.stride = 3 * kDim;
            params.rows = kTokens;
            params.dim = kDim;
            params.prefix_weight = params.patch_weight = 1;
            params.measure = maps::HydraMeasure::sum;
            params.heat = t->heat.data();
            return {[=](Stream s) { maps::cuda::hydra_map(params, s); },
                    {},
                    [t] { return is_finite(t->heat); }};
          }};
}

Case linear_scores_case() {
  return {"linear_map scores, hedgehog",
          "N 8161, H 12, d 64",
          "bfloat16",
          kValues * sizeof(BFloat16) + kHeads * kTokens * sizeof(float),
          4 * kValues,
          [](Stream) -> Work {
            auto t = std::make_shared<Tensors>();
            maps::LinearScoresParams<BFloat16> params{};
            params.shape = {kHeads,
                            kDim / kHeads,
                            kDim / kHeads,
                            linear::Feature::exp_pair,
                            linear::Normaliser::add_eps,
                            1e-6F,
                            1e-6F};
            params.q = t->qkv.data();
            params.k = t->qkv.data() + kDim;
            params.k_stride = 3 * kDim;
            params.rows = kTokens;
            params.prefix_weight = params.patch_weight = 1;
            params.scores = t->heat.data();
            params.score_stride = kTokens;
            return {[=](Stream s) { maps::cuda::linear_scores(params, s); },
                    {},
                    [t] { return is_finite(t->heat); }};
          }};
}

}  // namespace

std::vector<Case> map_cases() { return {hydra_map_case(), linear_scores_case()}; }

}  // namespace hydrascope::bench
