// Patches that find each other by clusters of their keys (Roy et al. 2020, Efficient Content-Based
// Sparse Attention with Routing Transformers, arXiv 2003.05997, section 4.1). The centroids mu_c
// come from spherical k-means on one image's keys in one head, |k_j| = 1:
//   mu_1 is the key nearest to the mean, mu_c the key least like mu_1 .. mu_(c-1), then each of
//   `steps` times the direction of the sum of the keys that are nearest to mu_c
// A query belongs to the cluster with the largest q_i . mu_c, and sees the w = ceil(n / k) keys with the
// largest k_j . mu_c of n patches in k clusters. The paper learns centroids of a layer by a moving
// average over training and gives clusters their w nearest queries as well; centroids of the image need
// no training, and here no query stays without a cluster.
#pragma once

#include "model/attention/sparse/content_softmax.h"

#include <cstdint>
#include <memory>

namespace hydrascope::model {

/// `num_clusters` clusters; 0: the rounded square root of the number of patches.
std::unique_ptr<ContentPattern> cluster_pattern(std::int64_t num_clusters, std::int64_t steps);

/// Clusters of that many patches.
std::int64_t clusters_of(std::int64_t num_clusters, std::int64_t num_patches);

}  // namespace hydrascope::model
