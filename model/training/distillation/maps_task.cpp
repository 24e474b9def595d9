#include "model/training/distillation/maps_task.h"

#include "model/training/distillation/matching_losses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace hydrascope::model::training {

MapsTask::MapsTask(Teacher& teacher, VisionTransformerImpl& student,
                   std::vector<std::int64_t> layers, MapsOptions options)
    : teacher_(teacher), student_(student), layers_(std::move(layers)), options_(options) {}

StepLoss MapsTask::accumulate(const Batch& batch, const StepPart& part) {
  const c10::Device device = batch.images.device();
  const TeacherPass seen = [&] {
    const AutocastScope scope(part.autocast, device.type());
    return teacher_.look(batch.images, layers_);
  }();
  // The same rows on all ranks: W ranks compute the loss of one rank with W times the batch.
  constexpr std::uint64_t kRowsStream = 0x726F7773;  // "rows": not the pictures' streams
  const at::Tensor rows = sample_queries(seen.grid, options_.query_rows,
                                         RandomStream{options_.seed, kRowsStream,
                                                      static_cast<std::uint64_t>(part.step)})
                              .to(device);
  const std::int64_t num_rows = rows.size(0);
  StepLoss cost{at::zeros({}, batch.images.options())};
  at::Tensor entropy = at::zeros({}, batch.images.options());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const QueriesAndKeys projected = [&] {
      const AutocastScope scope(part.autocast, device.type());
      return queries_and_keys(teacher_.model(), layers_[i], seen.tokens[i]);
    }();
    // Half types are too coarse for logarithms of small weights, and the rows cost little.
    const at::Tensor k = to_compute_type(projected.keys);
    TokenMixer& of_teacher = teacher_.model().block(layers_[i]).attention().mixer();
    TokenMixer& of_student = student_.block(layers_[i]).attention().mixer();
    for (std::int64_t first = 0; first < num_rows; first += options_.row_chunk) {
      const std::int64_t count = std::min(options_.row_chunk, num_rows - first);
      const double weight = static_cast<double>(count) / static_cast<double>(num_rows) /
                            static_cast<double>(layers_.size());
      // A map depends on a token's values, not on its place, so the sampled queries may come first.
      const at::Tensor q =
          to_compute_type(projected.queries.index_select(2, rows.narrow(0, first, count)));
      const at::Tensor wanted = of_teacher.attention_rows(q, k, seen.grid, 0, count);
      const at::Tensor found = of_student.attention_rows(q, k, seen.grid, 0, count);
      const at::Tensor loss = weight * row_cross_entropy(found, wanted);
      (loss * part.weight).backward();
      cost.loss += loss.detach();
      entropy += weight * row_entropy(wanted);
    }
  }
  cost.parts["kl"] = cost.loss - entropy;
  return cost;
}

}  // namespace hydrascope::model::training
