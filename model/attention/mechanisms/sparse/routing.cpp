// Routing Transformer's attention (Roy et al. 2020, Efficient Content-Based Sparse Attention with
// Routing Transformers, arXiv 2003.05997, section 4) on the patches of a picture: in some heads a patch
// sees the keys of the cluster that its query belongs to (cluster_pattern.h), itself and the prefix
// tokens, which see all; the other heads, the paper's local ones, see neighbourhoods
// (neighborhood.cpp).
#include "model/attention/positions/rule_of_heads.h"
#include "model/attention/sparse/cluster_pattern.h"
#include "model/attention/sparse/content_softmax.h"
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

const IntegerOption kClusters("clusters", 0, 0, 65536,
                              "clusters of an image's keys; 0: the square root of their number");
const IntegerOption kMeansSteps("steps", 4, 0, 64, "of k-means");
const NumberOption kLocalHeads("local_heads", "0.5", 0, 1,
                               "share of the heads, the last ones, that see their neighbourhood");
const ExtentOption kLocalWindow("window",
                                "patches that local heads see along an axis; 0: the training grid");

std::int64_t num_local_heads(const MechanismOptions& options, std::int64_t num_heads) {
  return std::llround(kLocalHeads(options) * static_cast<double>(num_heads));
}

std::vector<HeadPattern> local_patterns(const MechanismOptions& options, const TokenGrid& training,
                                        std::int64_t num_heads) {
  return neighborhood_heads({kLocalWindow(options, training)}, num_local_heads(options, num_heads),
                            0);
}

/// Heads that route, then local ones; one of both may be missing.
class RoutingMixer final : public TokenMixer {
 public:
  explicit RoutingMixer(const TokenMixerArguments& arguments)
      : position_(arguments.position),
        num_routing_(arguments.num_heads -
                     num_local_heads(arguments.options, arguments.num_heads)) {
    TokenMixerArguments of_heads = arguments;
    const auto rule_from = [&](std::int64_t first_head) {
      return position_ ? std::make_shared<RuleOfHeads>(position_, first_head) : nullptr;
    };
    routing_ = std::make_unique<ContentSoftmaxMixer>(
        cluster_pattern(kClusters(arguments.options), kMeansSteps(arguments.options)),
        rule_from(0));
    of_heads.position = rule_from(num_routing_);
    local_ = std::make_unique<SparseSoftmaxMixer>(
        local_patterns(arguments.options, arguments.training_grid, arguments.num_heads), of_heads,
        PrefixRows::plain);
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    return joined(q, k, grid, 2,
                  [&](TokenMixer& mixer, const auto& q_of, const auto& k_of, const auto& part) {
                    return mixer.mix(q_of, k_of, part(v), grid, kernels);
                  });
  }
  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    return joined(q, k, grid, 1,
                  [&](TokenMixer& mixer, const auto& q_of, const auto& k_of, const auto&) {
                    return mixer.attention_rows(q_of, k_of, grid, first, count);
                  });
  }
  [[nodiscard]] bool needs_all_queries() const override { return num_routing_ > 0; }
  [[nodiscard]] const PositionRule* position() const override { return position_.get(); }

 private:
  /// The results of both kinds of heads, side by side.
  template <class Function>
  [[nodiscard]] Tensor joined(const Tensor& q, const Tensor& k, const TokenGrid& grid,
                              std::int64_t dim, const Function& of) const {
    const Tensor queries = turned_by(position_.get(), q, grid);
    const Tensor keys = turned_by(position_.get(), k, grid);
    std::vector<Tensor> parts;
    const auto add = [&](TokenMixer& mixer, std::int64_t first, std::int64_t count) {
      const auto part = [=](const Tensor& x) { return x.narrow(1, first, count); };
      if (count > 0) parts.push_back(of(mixer, part(queries), part(keys), part));
    };
    add(*routing_, 0, num_routing_);
    add(*local_, num_routing_, q.size(1) - num_routing_);
    return at::cat(parts, dim);
  }

  std::shared_ptr<const PositionRule> position_;
  std::int64_t num_routing_;
  std::unique_ptr<TokenMixer> routing_;
  std::unique_ptr<TokenMixer> local_;
};

MixerCost routing_cost(const MixerSize& size, const MechanismOptions& options) {
  const std::int64_t patches = size.grid.num_image_tokens();
  const std::int64_t clusters = clusters_of(kClusters(options), patches);
  const auto n = static_cast<double>(patches);
  const auto k = static_cast<double>(clusters);
  const std::int64_t routing = size.num_heads - num_local_heads(options, size.num_heads);
  const auto features = static_cast<double>(routing * size.head_dim());
  MixerCost cost = sparse_cost(size, local_patterns(options, size.training_grid, size.num_heads));
  const double keys = clusters == 1 ? n : std::ceil(n / k);
  cost.flops += 4 * features * n * keys;
  if (clusters > 1)
    cost.flops += 2 * features * n * k * static_cast<double>(3 + kMeansSteps(options));
  cost.pairs += n * keys * features / static_cast<double>(size.embed_dim);
  return cost;
}

const MechanismRegistration kRouting({
    .name = "routing",
    .aliases = {"routing_transformer"},
    .summary = "softmax attention within clusters of keys, and around each patch, O(N^1.5 D)",
    .citation = "Roy et al. 2020, Efficient Content-Based Sparse Attention with Routing "
                "Transformers, arXiv 2003.05997",
    .options = {kClusters, kMeansSteps, kLocalHeads, kLocalWindow},
    .map_definition =
        "A_h = softmax(q_h k_h^T / sqrt(d)) over the keys of the query's cluster, or "
        "its neighbourhood in local heads, itself and the prefix tokens, 0 elsewhere; "
        "rows of prefix tokens over all",
    .rows_sum_to_one = true,
    .non_negative = true,
    .permutation_equivariant = false,
    .sparse = true,
    .takes_positions = true,
    .cost = routing_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<RoutingMixer>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
