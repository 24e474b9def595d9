#include "model/training/distillation/finetune_task.h"

#include "model/training/distillation/matching_losses.h"
#include "model/training/losses.h"
#include "model/training/penalty.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

FinetuneTask::FinetuneTask(Teacher& teacher, VisionTransformerImpl& student,
                           FinetuneOptions options)
    : teacher_(teacher), student_(student), options_(options) {
  const std::int64_t depth = teacher_.config().depth;
  layers_.push_back(options_.first_layer);
  if (options_.blocks_weight > 0)
    for (std::int64_t layer = options_.first_layer + 1; layer < depth; ++layer)
      layers_.push_back(layer);
  layers_.push_back(depth);
}

at::Tensor FinetuneTask::mixed(const Batch& batch) const {
  if (!options_.mixup.is_on()) return batch.images;
  return mix_images(batch.images, draw_mixing(options_.mixup, batch, options_.seed,
                                              static_cast<std::uint64_t>(options_.rank)));
}

StepLoss FinetuneTask::loss(const Batch& batch, std::int64_t) {
  const TeacherPass seen = teacher_.look(mixed(batch), layers_);
  const VitConfig& config = teacher_.config();
  const bool compares_blocks = options_.blocks_weight > 0;

  at::Tensor tokens = seen.tokens.front();
  if (student_.config().pos_embed != config.pos_embed)  // tables that the teacher lacks
    tokens = student_.enter(options_.first_layer, tokens, seen.grid);
  at::Tensor blocks = at::zeros({}, batch.images.options());
  for (std::int64_t layer = options_.first_layer; layer < config.depth; ++layer) {
    tokens = run_block(student_, layer, tokens, seen.grid);
    if (!compares_blocks) continue;
    const auto of_teacher = static_cast<std::size_t>(layer + 1 - options_.first_layer);
    blocks = blocks + relative_error(tokens, seen.tokens[of_teacher]);
  }
  blocks = blocks / static_cast<double>(config.depth - options_.first_layer);
  const at::Tensor kl = logit_divergence(classify_tokens(student_, tokens), seen.logits);
  StepLoss cost;
  cost.loss = options_.logits_weight * kl;
  cost.parts["kl"] = kl.detach();
  if (compares_blocks) {
    cost.loss = cost.loss + options_.blocks_weight * blocks;
    cost.parts["blocks"] = blocks.detach();
  }
  add_penalty(student_, cost, options_.first_layer);
  return cost;
}

StepLoss SizesTask::loss(const Batch& batch, std::int64_t) {
  const std::int64_t views = batch.views.size(0);
  const at::Tensor wanted =
      to_compute_type(teacher_.logits(batch.images)).softmax(-1).unflatten(0, {views, -1}).mean(1);
  StepLoss cost;
  cost.loss = divergence_from(logits_of(student_, batch.views), wanted);
  add_penalty(student_, cost);
  return cost;
}

}  // namespace hydrascope::model::training
