#include "app/train/conversion_options.h"

#include "app/model/model_source.h"
#include "app/options/option_fields.h"
#include "app/run/usage_error.h"
#include "app/specs/training.h"
#include "app/tasks/format_only.h"
#include "app/train/training_options.h"
#include "kernels/device/processors.h"
#include "model/checkpoint/peft_adapter.h"
#include "model/device.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

namespace hydrascope::app {

using Json = nlohmann::json;

namespace {

namespace training = model::training;

std::int64_t warmup(std::int64_t steps, std::int64_t wanted) {
  return std::min(wanted, std::max<std::int64_t>(0, steps - 1));
}

template <class Number>
void choose(std::optional<Number>& number, const Field& field, bool learns_maps, int world_size,
            Json& recipe) {
  if (number) return;
  number = static_cast<Number>(recipe_default(field).of(learns_maps, world_size));
  recipe[recorded_name("convert", field)] = *number;
}

/// `--exits` and what belongs to it.
void read_exits(const ParsedOptions& options, ConvertRequest& request) {
  const GivenOption& given = options[&ConvertOptions::exits];
  if (!given.given()) {
    const bool sets_rate = options.given(&ConvertOptions::exits_learning_rate);
    if (sets_rate || options[&ConvertOptions::steps_exits].source == Source::command_line)
      throw UsageError("there are no exits to learn",
                       sets_rate ? "`set` exits.lr" : "`steps_exits`", "`exits` auto");
    return;
  }
  request.chooses_exits = given.values.size() == 1 && given.values.front() == "auto";
  for (const std::string& word : given.values) {
    if (request.chooses_exits) break;
    request.exits.push_back(parse_layer(word, "layers or auto", given.origin, "`exits` 6,7,8"));
  }
  if (request.names_attention || !request.sizes.empty())
    throw UsageError("exits belong to the model that they are learned for",
                     given.origin + (request.sizes.empty() ? " with `attn`" : " with `sizes`"),
                     "convert first, then learn exits for the new file");
  if (request.low_rank.rank > 0)
    throw UsageError("exits learn all of their weights", given.origin + " with `lora_rank`");
  if (request.target == training::Target::features)
    throw UsageError("exits learn logits", given.origin + " with `set` last.target=features");
}

}  // namespace

ConvertRequest convert_request(const ParsedOptions& options) {
  ConvertRequest request;
  static_cast<TrainingRequest&>(request) = training_request(options, "convert");
  options.fill<ConvertOptions>(request);
  request.names_attention = options.given(&ModelRequest::attention) ||
                            !options[&ModelRequest::attention_options].values.empty();
  take(options[&RunRequest::batch_size], request.asked_batch_size);
  request.dtype = weights_request(options).dtype.value_or(request.dtype);

  training::ConversionOptions& conversion = request.conversion;
  conversion.maps.steps = request.steps_maps;
  conversion.finetune.evaluations = conversion.sizes.evaluations = request.evaluations;
  conversion.sizes.steps = request.sizes.empty() ? 0 : request.steps_sizes;
  conversion.sizes.learning_rate = request.sizes_learning_rate;
  if (request.sizes.empty()) {
    const bool sets_rate = options.given(&ConvertOptions::sizes_learning_rate);
    if (sets_rate || options[&ConvertOptions::steps_sizes].source == Source::command_line)
      throw UsageError("there are no sizes to learn",
                       sets_rate ? "`set` sizes.lr" : "`steps_sizes`", "`sizes` 512");
  }
  conversion.of_finetune.answers_weight = request.answers_weight;
  read_exits(options, request);
  conversion.exits.steps = request.learns_exits() ? request.steps_exits : 0;
  conversion.exits.learning_rate = request.exits_learning_rate;
  conversion.exits.evaluations = request.evaluations;
  conversion.of_finetune.blocks_weight = request.blocks_weight;
  constexpr double kMixedShare = 0.7;  // of the batches
  conversion.of_finetune.mixup = request.mixup;
  conversion.of_finetune.mixup.prob = kMixedShare;
  conversion.train_from = request.train_from;
  if (request.averages) conversion.average_decay = request.average_decay;
  conversion.max_seconds = request.max_seconds();
  conversion.steps_between_states = request.steps_between_states;
  conversion.recent_states = request.recent_states;
  conversion.optimizer = request.optimizer;
  conversion.groups = request.groups;
  conversion.low_rank = request.low_rank;
  conversion.trainer = request.trainer;
  request.loader.sampler.balance_sources = request.balances_sources;
  return request;
}

void ConvertRequest::choose_numbers(bool learns_maps, int world_size) {
  Json all = Json::parse(recipe);
  choose(learning_rate, &ConvertOptions::learning_rate, learns_maps, world_size, all);
  choose(mechanism_rate_scale, &ConvertOptions::mechanism_rate_scale, learns_maps, world_size, all);
  choose(asked_batch_size, &RunRequest::batch_size, learns_maps, world_size, all);
  constexpr std::int64_t kMapsBatch = 8;  // shared among the processes
  if (!batch_size_maps) batch_size_maps = std::max<std::int64_t>(1, kMapsBatch / world_size);
  all[recorded_name("convert", &ConvertOptions::batch_size_maps)] = *batch_size_maps;
  choose(steps_outputs, &ConvertOptions::steps_outputs, learns_maps, world_size, all);
  recipe = all.dump();
}

int default_processes(const ConvertRequest& request, const model::VitConfig& config) {
  if (request.run.threads || request.asked_batch_size || request.batch_size_maps) return 1;
  const bool reads_input = std::ranges::find(request.words, "-") != request.words.end();
  if (reads_input || !model::resolve_device(request.run.device).is_cpu()) return 1;
  constexpr std::int64_t kMost = 4;
  std::int64_t most = std::min(kMost, std::int64_t{kernels::device::processors().usable()});
  // Activations grow with width, depth and tokens, weights and their moments with depth and width
  // squared: DeiT-Tiny takes 2.2e9 bytes, DeiT-B 5e9.
  const auto tokens = static_cast<double>(config.training_grid().num_tokens());
  const auto width = static_cast<double>(config.embed_dim);
  const double bytes =
      1.7e9 + static_cast<double>(config.depth) * width * (900 * tokens + 240 * width);
  if (const auto memory = kernels::device::available_memory())
    most = std::min(most, static_cast<std::int64_t>(static_cast<double>(*memory) / bytes));
  // Powers of two, which divide the batches.
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

training::ConversionOptions conversion_options(const ConvertRequest& request, const RunRequest& run,
                                               const image::TransformConfig& transform,
                                               c10::Device device, std::int64_t pictures) {
  constexpr std::int64_t kMapsWarmup = 20;
  constexpr std::int64_t kOutputsWarmup = 10;
  constexpr double kFinetuneWarmup = 0.05;
  training::ConversionOptions conversion = request.conversion;
  training::StageOptions& maps = conversion.maps;
  maps.batch_size = request.batch_size_maps.value();
  maps.warmup_steps = warmup(maps.steps, kMapsWarmup);
  training::StageOptions& outputs = conversion.outputs;
  outputs.steps = request.steps_outputs.value();
  outputs.batch_size = request.asked_batch_size.value();
  outputs.warmup_steps = warmup(outputs.steps, kOutputsWarmup);
  training::StageOptions& finetune = conversion.finetune;
  const auto of_a_step = static_cast<double>(outputs.batch_size * conversion.trainer.accumulation *
                                             run.launch.world_size);
  const double steps = request.epochs * static_cast<double>(pictures) / of_a_step;
  finetune.steps =
      request.epochs == 0 ? 0 : std::max<std::int64_t>(1, std::llround(std::floor(steps)));
  finetune.learning_rate = request.learning_rate.value();
  for (training::StageOptions* last : {&finetune, &conversion.sizes, &conversion.exits}) {
    last->batch_size = outputs.batch_size;
    last->min_learning_rate = std::min(request.min_learning_rate, last->learning_rate);
    last->warmup_steps =
        warmup(last->steps, std::llround(kFinetuneWarmup * static_cast<double>(last->steps)));
  }
  conversion.resolutions = resolutions_of(request, transform);
  conversion.groups.mechanism_rate_scale = request.mechanism_rate_scale.value();
  conversion.loader = loader_of(request, run, transform);
  conversion.trainer.device = device;
  conversion.trainer.autocast = autocast_of(request, device);
  return conversion;
}

training::Target target_of(const ConvertRequest& request, bool has_classes) {
  using training::Target;
  const Target target = request.target.value_or(has_classes ? Target::logits : Target::features);
  if (!has_classes) {
    if (target == Target::logits)
      throw UsageError("the model has no classes: it has features alone",
                       "`set` last.target=logits");
    if (request.required_top1) throw UsageError("the model has no classes", "`require_top1`");
    if (!request.labels_csv.empty()) throw UsageError("the model has no classes", "`labels_csv`");
  }
  return target;
}

std::string conversion_recipe(const ConvertRequest& request, training::Target target,
                              training::Autocast autocast, int processes) {
  Json recipe = Json::parse(recipe_of(request, "convert", autocast, processes));
  const auto recorded = [](const Field& field) { return recorded_name("convert", field); };
  if (!request.architecture.empty())
    recipe[recorded(&ConvertOptions::architecture)] = request.architecture;
  // A stage that does not run has no settings, so states of versions without it go on.
  if (request.sizes.empty())
    for (const Field& field : std::initializer_list<Field>{&ConvertOptions::steps_sizes,
                                                           &ConvertOptions::sizes_learning_rate})
      recipe.erase(recorded(field));
  // Logits were learned before there was a choice.
  const std::string& of_target = recorded(&ConvertOptions::target);
  recipe.erase(of_target);
  if (target != training::Target::logits) recipe[of_target] = name(target);
  const std::string& adapter = recorded(&ModelRequest::adapter);
  recipe.erase(adapter);
  if (!request.model.adapter.empty())
    recipe[adapter] = name_and_sha256(checkpoint::adapter_weights(request.model.adapter));
  if (!request.learns_exits())
    for (const Field& field :
         std::initializer_list<Field>{&ConvertOptions::exits, &ConvertOptions::steps_exits,
                                      &ConvertOptions::exits_learning_rate})
      recipe.erase(recorded(field));
  std::string starts;
  for (const std::string& start : request.starts)
    starts += (starts.empty() ? "" : "; ") + name_and_sha256(start);
  if (!starts.empty()) recipe[recorded(&ConvertOptions::starts)] = starts;
  return recipe.dump();
}

using model::training::TrainingPicture;

ConversionPictures conversion_pictures(const std::vector<std::string>& words, double held_out,
                                       std::uint64_t seed) {
  if (words.empty()) {
    throw UsageError("expected pictures to learn from", "convert",
                     "-i FOLDER; labels are not needed");
  }
  std::vector<std::vector<TrainingPicture>> sources;
  std::set<std::filesystem::path> known;
  std::size_t all = 0;
  ConversionPictures result;
  for (const std::string& word : words) {
    FoundPictures found;
    add_pictures(word, static_cast<std::int32_t>(sources.size()), known, found);
    all += found.pictures.size();
    sources.push_back(std::move(found.pictures));
    std::ranges::move(found.failed, std::back_inserter(result.failed));
    result.passed += found.passed;
  }
  const double count = held_out < 1 ? held_out * static_cast<double>(all) : held_out;
  const double of_each = count / static_cast<double>(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    constexpr double kMostShare = 0.25;
    const double share = std::min(kMostShare, of_each / static_cast<double>(sources[i].size()));
    model::training::Split split = model::training::hold_out(std::move(sources[i]), share, seed);
    result.sources.push_back(words[i] + " (" + std::to_string(split.training.size()) + " + " +
                             std::to_string(split.held_out.size()) + ")");
    std::ranges::move(split.training, std::back_inserter(result.training));
    std::ranges::move(split.held_out, std::back_inserter(result.held_out));
  }
  if (result.training.empty() || result.held_out.empty()) {
    throw Error(
        ErrorCode::empty,
        "expected pictures to learn from and others to judge by, found " + std::to_string(all),
        "convert");
  }
  return result;
}

}  // namespace hydrascope::app
