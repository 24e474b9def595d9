#include "model/training/classification_task.h"

#include "model/training/losses.h"
#include "model/training/penalty.h"

#include <ATen/ATen.h>

#include <utility>

namespace hydrascope::model::training {

ClassificationTask::ClassificationTask(VisionTransformerImpl& model, ClassificationOptions options,
                                       Teacher teacher, int rank)
    : model_(model),
      options_(options),
      teacher_(std::move(teacher)),
      rank_(static_cast<std::uint64_t>(rank)) {}

StepLoss ClassificationTask::loss(const Batch& batch, std::int64_t) {
  const bool has_views = batch.views.defined();
  at::Tensor images = has_views ? batch.views : batch.images;
  Mixing mixing;
  if (options_.mixup.is_on()) {
    mixing = draw_mixing(options_.mixup, batch, options_.seed, rank_);
    images = mix_images(images, mixing);
  }
  // Cross-entropy is linear in its target, so learning from each part of a view is learning from
  // the parts' mean.
  const auto of_parts = [&](const at::Tensor& logits) {
    return has_views ? logits.repeat_interleave(batch.targets.size(0) / logits.size(0), 0) : logits;
  };
  const auto label_loss_of = [&](const at::Tensor& logits) {
    if (!options_.mixup.is_on())
      return cross_entropy(logits, batch.targets, options_.mixup.label_smoothing);
    return soft_cross_entropy(
        logits, mix_targets(batch.targets, logits.size(1), mixing, options_.mixup.label_smoothing));
  };
  ForwardOptions forward;
  forward.drop_path_rate = options_.drop_path_rate;
  forward.recompute_blocks = options_.recompute_blocks;
  forward.mlp_chunks = options_.mlp_chunks;
  HaltingCost halting;
  forward.halting = &halting;
  const at::Tensor tokens = model_.forward_features(images, forward);
  const auto with_costs_of_layers = [&](StepLoss cost) {
    add_penalty(model_, cost);
    if (!halting.ponder.defined()) return cost;
    cost.loss = cost.loss + options_.ponder_weight * halting.ponder;
    cost.parts["ponder"] = halting.ponder.detach();
    cost.parts["layers"] = halting.layers.to(at::kFloat).mean();
    return cost;
  };
  // A distilled model's logits are then the mean of its heads, as in timm.
  if (!teacher_)
    return with_costs_of_layers({label_loss_of(of_parts(model_.forward_head(tokens))), {}});

  const at::Tensor of_teacher = teacher_(has_views ? batch.images : images).to(images.device());
  const auto [of_class, of_distillation] = model_.forward_heads(tokens);
  const at::Tensor student = of_parts(of_distillation.defined() ? of_distillation : of_class);
  const at::Tensor label_loss = label_loss_of(of_parts(of_class));
  const at::Tensor total =
      options_.distillation_is_hard
          ? hard_distillation(label_loss, student, of_teacher, options_.distillation_weight)
          : soft_distillation(label_loss, student, of_teacher, options_.temperature,
                              options_.distillation_weight);
  const at::Tensor agreement =
      (student.detach().argmax(1) == of_teacher.argmax(1)).to(at::kFloat).mean();
  return with_costs_of_layers(
      {total, {{"label_loss", label_loss.detach()}, {"teacher_agreement", agreement}}});
}

}  // namespace hydrascope::model::training
