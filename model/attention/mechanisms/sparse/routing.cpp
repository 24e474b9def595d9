// Routing Transformer's attention (Roy et al. 2020, Efficient Content-Based Sparse Attention with
// Routing Transformers, arXiv 2003.05997, section 4) on the patches of a picture: in some heads a patch
// sees the keys of the cluster that its query belongs to, itself and the prefix tokens, which see all; the
// other heads, the paper's local ones, see neighbourhoods (neighborhood.cpp). The centroids mu_c come from spherical k-means on one image's keys in one head, |k_j| = 1:
//   mu_1 is the key nearest to the mean, mu_c the key least like mu_1 .. mu_(c-1), then each of
//   `steps` times the direction of the sum of the keys that are nearest to mu_c
// A query belongs to the cluster with the largest q_i . mu_c, and sees the w = ceil(n / k) keys with the
// largest k_j . mu_c of n patches in k clusters. The paper learns centroids of a layer by a moving
// average over training and gives clusters their w nearest queries as well; centroids of the image need
// no training, and here no query stays without a cluster.
#include "model/attention/positions/position_rule.h"
#include "model/attention/sparse/content_softmax.h"
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
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

/// Norm below which sums over clusters, and keys, count as zero.
constexpr double kLeastNorm = 1e-12;

Tensor unit(const Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(kLeastNorm); }

/// Rows (G, 1, d) of x (G, n, d) by index (G).
Tensor row_of(const Tensor& x, const Tensor& index) {
  return x.gather(1, index.view({-1, 1, 1}).expand({-1, 1, x.size(2)}));
}

/// Unit keys (G, n, d) -> centroids (G, k, d).
Tensor k_means(const Tensor& keys, std::int64_t num_clusters, std::int64_t steps) {
  const auto likeness = [&](const Tensor& centroid) {  // (G, n) to a row (G, 1, d)
    return keys.matmul(centroid.transpose(1, 2)).squeeze(2);
  };
  std::vector<Tensor> chosen{row_of(keys, likeness(keys.mean(1, true)).argmax(1))};
  Tensor nearest = likeness(chosen.front());
  while (std::ssize(chosen) < num_clusters) {
    chosen.push_back(row_of(keys, nearest.argmin(1)));
    nearest = at::maximum(nearest, likeness(chosen.back()));
  }
  Tensor centroids = at::cat(chosen, 1);
  for (std::int64_t step = 0; step < steps; ++step) {
    const Tensor cluster = keys.matmul(centroids.transpose(1, 2)).argmax(2).unsqueeze(2);
    // A product gives the same bits every time, which sums by atomics on a GPU do not.
    const Tensor members = at::one_hot(cluster.squeeze(2), num_clusters).to(keys.scalar_type());
    const Tensor sums = members.transpose(1, 2).matmul(keys);
    // A cluster without keys keeps its centroid.
    const Tensor is_empty = sums.norm(2, -1, true).lt(kLeastNorm);
    centroids = at::where(is_empty, centroids, unit(sums));
  }
  return centroids;
}

/// Clusters of that many patches; `num_clusters` 0: the rounded square root of the number of patches.
std::int64_t clusters_of(std::int64_t num_clusters, std::int64_t num_patches) {
  if (num_clusters == 0) num_clusters = std::llround(std::sqrt(static_cast<double>(num_patches)));
  return std::clamp<std::int64_t>(num_clusters, 1, std::max<std::int64_t>(1, num_patches));
}

class ClusterPattern final : public ContentPattern {
 public:
  ClusterPattern(std::int64_t num_clusters, std::int64_t steps)
      : num_clusters_(num_clusters), steps_(steps) {}

  [[nodiscard]] std::vector<FoundGroups> passes(const Tensor& q, const Tensor& k) const override {
    const std::int64_t n = q.size(1);
    const std::int64_t clusters = clusters_of(num_clusters_, n);
    const std::int64_t size = (n + clusters - 1) / clusters;
    const Tensor keys = unit(k);
    const Tensor centroids = k_means(keys, clusters, steps_).transpose(1, 2);  // (G, d, k)
    const Tensor members =
        std::get<1>(keys.matmul(centroids).transpose(1, 2).topk(size, -1)).cpu();  // (G, k, w)
    const Tensor cluster = q.matmul(centroids).argmax(2).cpu().contiguous();
    // Queries of a cluster in runs of w, the last of which repeats its last query.
    std::vector<std::int64_t> queries, of_members;
    for (std::int64_t g = 0; g < q.size(0); ++g) {
      std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(clusters));
      const std::int64_t* const of_query = cluster.const_data_ptr<std::int64_t>() + g * n;
      for (std::int64_t i = 0; i < n; ++i)
        lists[static_cast<std::size_t>(of_query[i])].push_back(g * n + i);
      for (std::int64_t c = 0; c < clusters; ++c) {
        std::vector<std::int64_t>& list = lists[static_cast<std::size_t>(c)];
        for (std::size_t first = 0; first < list.size(); first += static_cast<std::size_t>(size))
          of_members.push_back(g * clusters + c);
        while (std::ssize(list) % size != 0) list.push_back(list.back());
        queries.insert(queries.end(), list.begin(), list.end());
      }
    }
    const auto index = [&](const std::vector<std::int64_t>& list) {
      return at::tensor(list, at::kLong);
    };
    FoundGroups groups;
    const Tensor offset = at::arange(q.size(0), at::kLong).view({-1, 1, 1}) * n;
    groups.queries = index(queries).view({-1, size}).to(q.device());
    groups.keys =
        (members + offset).flatten(0, 1).index_select(0, index(of_members)).to(q.device());
    groups.sees = groups.queries.unsqueeze(2).ne(groups.keys.unsqueeze(1));
    return {groups};
  }
  [[nodiscard]] bool finds_all(std::int64_t num_patches) const override {
    return clusters_of(num_clusters_, num_patches) <= 1;
  }

 private:
  std::int64_t num_clusters_;
  std::int64_t steps_;
};

/// `rule` for the heads from `first_head` on, which are counted from there. Their queries and keys come
/// turned.
class RuleOfHeads final : public PositionRule {
 public:
  RuleOfHeads(std::shared_ptr<const PositionRule> rule, std::int64_t first_head)
      : rule_(std::move(rule)), first_head_(first_head) {}

  [[nodiscard]] bool changes_scores() const override { return rule_->changes_scores(); }
  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    return rule_->scores(q, k, of_layer(pairs));
  }
  [[nodiscard]] bool adds_values() const override { return rule_->adds_values(); }
  [[nodiscard]] at::Tensor added_values(const at::Tensor& weights,
                                        const TokenPairs& pairs) const override {
    return rule_->added_values(weights, of_layer(pairs));
  }
  [[nodiscard]] at::Tensor value_products(const at::Tensor& g,
                                          const TokenPairs& pairs) const override {
    return rule_->value_products(g, of_layer(pairs));
  }

 private:
  [[nodiscard]] TokenPairs of_layer(TokenPairs pairs) const {
    pairs.first_head += first_head_;
    return pairs;
  }

  std::shared_ptr<const PositionRule> rule_;
  std::int64_t first_head_;
};

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
        std::make_unique<ClusterPattern>(kClusters(arguments.options),
                                         kMeansSteps(arguments.options)),
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

const MechanismRegistration kRouting(over_some_tokens({
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
    .cost = routing_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      return std::make_unique<RoutingMixer>(arguments);
    },
}));

}  // namespace
}  // namespace hydrascope::model
