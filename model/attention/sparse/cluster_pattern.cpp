#include "model/attention/sparse/cluster_pattern.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

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

}  // namespace

std::int64_t clusters_of(std::int64_t num_clusters, std::int64_t num_patches) {
  if (num_clusters == 0) num_clusters = std::llround(std::sqrt(static_cast<double>(num_patches)));
  return std::clamp<std::int64_t>(num_clusters, 1, std::max<std::int64_t>(1, num_patches));
}

std::unique_ptr<ContentPattern> cluster_pattern(std::int64_t num_clusters, std::int64_t steps) {
  return std::make_unique<ClusterPattern>(num_clusters, steps);
}

}  // namespace hydrascope::model
