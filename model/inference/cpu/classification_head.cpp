#include "model/inference/cpu/classification_head.h"

#include "kernels/layer_norm/layer_norm.h"

#include <algorithm>

namespace hydrascope::model::inference {
namespace {

using kernels::linear::Epilogue;

void norm(const PackedNetwork& network, float* row) {
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<float>{
      row, network.embed_dim, 1, network.embed_dim, network.head.norm_weight.data(),
      network.head.norm_bias.data(), network.layer_norm_eps, row, network.embed_dim});
}

template <class T>
void read(const T* from, std::int64_t dim, float* row) {
  for (std::int64_t i = 0; i < dim; ++i) row[i] = static_cast<float>(from[i]);
}

/// The normalised mean of the patch tokens; `row` is room for one token.
template <class T>
void average(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* row,
             float* pooled) {
  const std::int64_t dim = network.embed_dim;
  std::fill_n(pooled, dim, 0.0F);
  for (std::int64_t index = network.num_prefix; index < num_tokens; ++index) {
    read(tokens + index * dim, dim, row);
    if (!network.head.norm_after_pool) norm(network, row);
    for (std::int64_t i = 0; i < dim; ++i) pooled[i] += row[i];
  }
  const float share = 1.0F / static_cast<float>(num_tokens - network.num_prefix);
  for (std::int64_t i = 0; i < dim; ++i) pooled[i] *= share;
  if (network.head.norm_after_pool) norm(network, pooled);
}

}  // namespace

template <class T>
void classify(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* row,
              float* logits) {
  const PackedHead& head = network.head;
  const std::int64_t dim = network.embed_dim;
  if (head.average) {
    average(network, tokens, num_tokens, row + dim, row);
  } else {
    read(tokens, dim, row);
    norm(network, row);
  }
  const LinearInput<float> pooled{row, {}};
  apply(head.classifier, pooled, 1, logits, network.num_classes, Epilogue::store);
  if (head.distilled.out() == 0) return;
  read(tokens + dim, dim, row);
  norm(network, row);
  apply(head.distilled, pooled, 1, logits, network.num_classes, Epilogue::add);
  for (std::int64_t i = 0; i < network.num_classes; ++i) logits[i] *= 0.5F;
}

template void classify(const PackedNetwork&, const float*, std::int64_t, float*, float*);
template void classify(const PackedNetwork&, const kernels::BFloat16*, std::int64_t, float*,
                       float*);

}  // namespace hydrascope::model::inference
