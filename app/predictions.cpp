#include "app/predictions.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>

namespace hydrascope::app {
namespace {

Prediction prediction(std::int64_t rank, std::int64_t index, const at::Tensor& probabilities,
                      const at::Tensor& logits, const image::Labels& labels) {
  const image::Label& label = labels.at(index);
  return {static_cast<int>(rank),
          index,
          label.id,
          label.short_name,
          probabilities[index].item<double>(),
          logits[index].item<double>()};
}

}  // namespace

std::vector<Prediction> top_classes(const at::Tensor& logits, std::int64_t count,
                                    const image::Labels& labels) {
  const at::Tensor probabilities = at::softmax(logits.to(at::kDouble), -1);
  const at::Tensor indices = std::get<1>(at::topk(probabilities, std::min(count, logits.size(-1))));
  std::vector<Prediction> top;
  for (std::int64_t rank = 0; rank < indices.size(0); ++rank)
    top.push_back(
        prediction(rank + 1, indices[rank].item<std::int64_t>(), probabilities, logits, labels));
  return top;
}

std::vector<Prediction> chosen_classes(const at::Tensor& logits,
                                       std::span<const std::int64_t> indices,
                                       const image::Labels& labels) {
  const at::Tensor probabilities = at::softmax(logits.to(at::kDouble), -1);
  std::vector<Prediction> chosen;
  for (const std::int64_t index : indices) {
    const auto better = probabilities.gt(probabilities[index]).sum().item<std::int64_t>();
    chosen.push_back(prediction(better + 1, index, probabilities, logits, labels));
  }
  return chosen;
}

}  // namespace hydrascope::app
