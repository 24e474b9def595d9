#include "model/training/distillation/finetune_task.h"

#include "model/training/distillation/matching_losses.h"
#include "model/training/losses.h"
#include "model/training/penalty.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {
namespace {

/// The distance of a student's answers from its teacher's, and its parts.
StepLoss distance_of(const at::Tensor& student, const at::Tensor& teacher, Target target) {
  StepLoss cost;
  if (target == Target::logits) {
    cost.loss = logit_divergence(student, teacher);
    cost.parts["kl"] = cost.loss.detach();
    return cost;
  }
  const at::Tensor pooled = cosine_distance(student.narrow(1, 0, 1), teacher.narrow(1, 0, 1));
  const at::Tensor gram = gram_error(student.slice(1, 1), teacher.slice(1, 1));
  cost.loss = pooled + gram;
  cost.parts["pooled"] = pooled.detach();
  cost.parts["gram"] = gram.detach();
  return cost;
}

}  // namespace

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
    tokens = run_block(student_, layer, tokens, seen.grid, teacher_.target());
    if (!compares_blocks) continue;
    const auto of_teacher = static_cast<std::size_t>(layer + 1 - options_.first_layer);
    blocks = blocks + relative_error(tokens, seen.tokens[of_teacher]);
  }
  blocks = blocks / static_cast<double>(config.depth - options_.first_layer);
  StepLoss cost = distance_of(answers_of(student_, tokens, seen.grid, teacher_.target()),
                              seen.answers, teacher_.target());
  cost.loss = options_.answers_weight * cost.loss;
  if (compares_blocks) {
    cost.loss = cost.loss + options_.blocks_weight * blocks;
    cost.parts["blocks"] = blocks.detach();
  }
  add_penalty(student_, cost, options_.first_layer);
  return cost;
}

StepLoss SizesTask::loss(const Batch& batch, std::int64_t) {
  const std::int64_t views = batch.views.size(0);
  const at::Tensor taught = to_compute_type(teacher_.answers(batch.images));
  const auto of_parts = [&](const at::Tensor& answers) {
    return answers.unflatten(0, {views, -1}).mean(1);
  };
  const at::Tensor found = answers_to(student_, batch.views, teacher_.target());
  StepLoss cost;
  if (teacher_.target() == Target::logits) {
    cost.loss = divergence_from(found, of_parts(taught.softmax(-1)));
  } else if (batch.is_scene) {
    cost.loss =
        cosine_distance(found.narrow(1, 0, 1), of_parts(unit_vectors(taught.narrow(1, 0, 1))));
    cost.parts["pooled"] = cost.loss.detach();
  } else {
    const at::Tensor covered =
        features_on(found, student_.grid_of(batch.views), teacher_.model().grid_of(batch.images));
    cost = distance_of(covered, taught, Target::features);
    const at::Tensor patches = cosine_distance(covered.slice(1, 1), taught.slice(1, 1));
    cost.loss = cost.loss + patches;
    cost.parts["patches"] = patches.detach();
  }
  add_penalty(student_, cost);
  return cost;
}

}  // namespace hydrascope::model::training
