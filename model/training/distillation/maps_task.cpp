#include "model/training/distillation/maps_task.h"

#include "model/training/distillation/matching_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace hydrascope::model::training {

MapsTask::MapsTask(Teacher& teacher, VisionTransformerImpl& student,
                   std::vector<std::int64_t> layers, MapsOptions options)
    : LayersTask(teacher, student, std::move(layers), mechanism_parameters), options_(options) {}

StepLoss MapsTask::loss(const Batch& batch, std::int64_t step) {
  const TeacherAttention attention = look(batch);
  // The same rows on all ranks: W of them do what one does with W times the batch.
  constexpr std::uint64_t kRowsStream = 0x726F7773;  // "rows": not the pictures' streams
  // Logarithms of small weights: half types are too coarse for the rows, and they cost little.
  const AutocastScope exact(Autocast::off, batch.images.device().type());
  const at::Tensor rows =
      sample_queries(attention.grid, options_.query_rows,
                     RandomStream{options_.seed, kRowsStream, static_cast<std::uint64_t>(step)})
          .to(batch.images.device());
  const std::int64_t num_rows = rows.size(0);
  const auto num_layers = static_cast<double>(attention.layers.size());

  at::Tensor entropy = at::zeros({}, batch.images.options());
  std::size_t layer = 0;
  std::int64_t first = 0;
  const auto next = [&]() -> at::Tensor {
    if (layer == attention.layers.size()) return {};
    const auto& [index, tokens, trace] = attention.layers[layer];
    const std::int64_t count = std::min(options_.row_chunk, num_rows - first);
    const double weight = static_cast<double>(count) / static_cast<double>(num_rows) / num_layers;
    const at::Tensor k = to_compute_type(trace.k);
    // Maps are functions of a token's values, not of its place: the sampled queries come first.
    const at::Tensor q = to_compute_type(trace.q.index_select(2, rows.narrow(0, first, count)));
    TokenMixer& mixer = student().block(index).attention().mixer();
    const at::Tensor wanted = teacher().model().block(index).attention().mixer().attention_rows(
        q, k, attention.grid, 0, count);
    const at::Tensor found = mixer.attention_rows(q, k, attention.grid, 0, count);
    entropy += weight * row_entropy(wanted);
    first += count;
    if (first == num_rows) {
      first = 0;
      ++layer;
    }
    return weight * row_cross_entropy(found, wanted);
  };
  StepLoss cost;
  cost.loss = sum_differentiated_at_once(parameters(), next);
  cost.parts["kl"] = cost.loss.detach() - entropy;
  return cost;
}

}  // namespace hydrascope::model::training
