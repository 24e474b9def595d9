#include "model/training/distillation/conversion_stages.h"

#include "kernels/error.h"
#include "model/training/distillation/exits_task.h"
#include "model/training/distillation/outputs_task.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace hydrascope::model::training {
namespace {

/// `layers` without those that an earlier conversion has begun.
ConvertedLayers not_begun(ConvertedLayers layers, const std::vector<std::int64_t>& begun) {
  for (std::vector<std::int64_t>* list : {&layers.all, &layers.maps, &layers.hydra}) {
    std::erase_if(
        *list, [&](std::int64_t layer) { return std::ranges::find(begun, layer) != begun.end(); });
  }
  return layers;
}

/// Weight of the class token's error in the second stage, beside the error of all tokens.
constexpr double kOutputsClassWeight = 0.5;
/// Factor of the second stage's learning rate for layers other than Hydra's: they have less to make
/// good.
constexpr double kRateOfOthers = 0.5;

std::string block_name(std::int64_t layer) { return "blocks." + std::to_string(layer); }

}  // namespace

ConversionStages::ConversionStages(Teacher& teacher, VisionTransformerImpl& student,
                                   const ProcessGroup& group, ConversionOptions options)
    : teacher_(teacher),
      student_(student),
      group_(group),
      options_(std::move(options)),
      layers_(converted_layers(teacher.config(), student)),
      fresh_(not_begun(layers_, options_.begun)) {
  std::int64_t& train_from = options_.train_from;
  if (train_from < 0) train_from = layers_.first();
  if (!layers_.all.empty() && train_from > layers_.first()) {
    throw Error(ErrorCode::invalid_argument,
                "layer " + std::to_string(layers_.first()) + " is converted and has to learn",
                "`train_from` " + std::to_string(train_from));
  }
  options_.of_maps.seed = options_.of_finetune.seed = options_.trainer.seed;
  options_.of_finetune.first_layer = train_from;
  options_.of_finetune.rank = group.rank();
  for (const Stage stage :
       {Stage::maps, Stage::outputs, Stage::finetune, Stage::sizes, Stage::exits})
    if (has_work(stage) && options_.of(stage).steps > 0) stages_.push_back(stage);
}

bool ConversionStages::has_work(Stage stage) const {
  switch (stage) {
    case Stage::maps: return !fresh_.maps.empty();
    case Stage::outputs: return !fresh_.all.empty();
    case Stage::finetune: return !layers_.all.empty();
    case Stage::exits: return !student_.config().exits.empty();
    case Stage::sizes: break;
  }
  return !options_.resolutions.sizes.empty();
}

void ConversionStages::shorten(Stage stage, std::int64_t steps) {
  StageOptions& whole = options_.of(stage);
  whole = shortened(whole, steps, stage == stages_.back());
}

std::int64_t ConversionStages::pictures_of_a_step(Stage stage) const {
  return options_.of(stage).batch_size * options_.trainer.accumulation * group_.world_size();
}

std::int64_t ConversionStages::steps_before(std::size_t index) const {
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < index; ++i) steps += options_.of(stages_[i]).steps;
  return steps;
}

LoaderOptions ConversionStages::loader(Stage stage) const {
  LoaderOptions loader = options_.loader;
  if (stage == Stage::sizes) loader.resolutions = options_.resolutions;
  loader.sampler.batch_size = options_.of(stage).batch_size;
  // Every stage has another order.
  loader.sampler.seed = options_.trainer.seed + static_cast<std::uint64_t>(stage);
  loader.sampler.rank = group_.rank();
  loader.sampler.world_size = group_.world_size();
  return loader;
}

TrainerOptions ConversionStages::trainer(Stage stage) const {
  const StageOptions& chosen = options_.of(stage);
  TrainerOptions trainer = options_.trainer;
  trainer.schedule.learning_rate = chosen.learning_rate;
  trainer.schedule.min_learning_rate = chosen.min_learning_rate;
  trainer.schedule.steps = chosen.steps;
  trainer.schedule.warmup_steps = std::min(chosen.warmup_steps, chosen.steps - 1);
  trainer.seed += static_cast<std::uint64_t>(stage);
  return trainer;
}

std::unique_ptr<TrainingTask> ConversionStages::make_task(Stage stage) {
  switch (stage) {
    case Stage::maps:
      return std::make_unique<MapsTask>(teacher_, student_, fresh_.maps, options_.of_maps);
    case Stage::outputs:
      return std::make_unique<OutputsTask>(teacher_, student_, fresh_.all, kOutputsClassWeight);
    case Stage::finetune:
      return std::make_unique<FinetuneTask>(teacher_, student_, options_.of_finetune);
    case Stage::exits: return std::make_unique<ExitsTask>(teacher_, student_);
    case Stage::sizes: break;
  }
  return std::make_unique<SizesTask>(teacher_, student_);
}

std::vector<ParameterGroup> ConversionStages::parameters(Stage stage) {
  const VitConfig& config = teacher_.config();
  ParameterGroupOptions chosen = options_.groups;
  const auto train_only = [&](const std::vector<std::int64_t>& layers, auto parameters_of) {
    chosen = {.weight_decay = 0};
    for (const std::int64_t layer : layers)
      for (const auto& [name, tensor] : parameters_of(student_, layer))
        chosen.train.push_back(name);
  };
  switch (stage) {
    case Stage::maps: train_only(fresh_.maps, mechanism_parameters); break;
    case Stage::outputs:
      train_only(fresh_.all, attention_parameters);
      return with_rates_of_outputs(parameter_groups(student_, chosen));
    case Stage::finetune:
      for (std::int64_t layer = options_.train_from; layer < config.depth; ++layer)
        chosen.train.push_back(block_name(layer));
      if (config.final_norm) chosen.train.emplace_back(config.fc_norm ? "fc_norm" : "norm");
      if (config.global_pool == Pooling::map) chosen.train.emplace_back("attn_pool");
      break;
    case Stage::exits: chosen.train.emplace_back("exits"); break;
    case Stage::sizes:  // embeddings too: patches of a large picture show other things
      // Features do not reach a classifier.
      if (teacher_.target() == Target::features && config.num_classes > 0) {
        chosen.freeze.emplace_back("head");
        if (config.distilled) chosen.freeze.emplace_back("head_dist");
      }
      break;
  }
  return parameter_groups(student_, chosen);
}

std::unique_ptr<LowRankUpdates> ConversionStages::updates(Stage stage,
                                                          std::vector<ParameterGroup>& groups) {
  const bool trains_blocks = stage == Stage::finetune || stage == Stage::sizes;
  if (!trains_blocks || options_.low_rank.rank == 0) return nullptr;
  return std::make_unique<LowRankUpdates>(student_, groups, options_.low_rank,
                                          options_.trainer.seed);
}

std::vector<ParameterGroup> ConversionStages::with_rates_of_outputs(
    std::vector<ParameterGroup> groups) const {
  const auto is_of_hydra = [&](const auto& parameter) {
    return std::ranges::any_of(layers_.hydra, [&](std::int64_t layer) {
      return parameter.first.starts_with(block_name(layer) + ".");
    });
  };
  std::vector<ParameterGroup> parted;
  for (ParameterGroup& of_hydra : groups) {
    ParameterGroup others = of_hydra;
    std::erase_if(others.parameters, is_of_hydra);
    others.learning_rate_scale *= kRateOfOthers;
    std::erase_if(of_hydra.parameters, std::not_fn(is_of_hydra));
    for (ParameterGroup* part : {&of_hydra, &others})
      if (!part->parameters.empty()) parted.push_back(std::move(*part));
  }
  return parted;
}

}  // namespace hydrascope::model::training
