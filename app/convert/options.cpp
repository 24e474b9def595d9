#include "app/convert/options.h"

#include "app/model/model_source.h"
#include "app/options/option_builders.h"
#include "app/train/training_options.h"
#include "kernels/error.h"
#include "model/device.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

namespace hydrascope::app {

using Json = nlohmann::json;

namespace {

namespace training = model::training;

std::int64_t warmup(const ParsedOptions& options, std::int64_t steps, std::int64_t otherwise) {
  return std::min(options.given("warmup-steps") ? options.integer("warmup-steps") : otherwise,
                  std::max<std::int64_t>(0, steps - 1));
}

/// Bytes that processes can have without swapping; all there could be where the system does not
/// say.
std::int64_t available_memory() {
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "MemAvailable:") available = kilobytes << 10;
  }
  // A container's limit; "max" is none.
  std::int64_t limit = 0;
  std::int64_t used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    available = std::min(available, std::max<std::int64_t>(0, limit - used));
  return available;
}

/// Bytes that a process takes at most. Measured, as recipes share their batches between two:
/// DeiT-Tiny 1.6e9 to 2.2e9, DeiT-B 3.9e9 before the cache was full. Activations grow with width,
/// depth and tokens; weights are those of both models, gradients, AdamW's moments and packed ones.
double bytes_of_process(const model::VitConfig& config) {
  constexpr double kProgram = 1.7e9;  // with the cache of pictures
  constexpr double kOfActivation = 900;
  constexpr double kOfWeight = 20;
  const auto features = static_cast<double>(config.depth * config.embed_dim);
  const auto tokens = static_cast<double>(config.training_grid().num_tokens());
  const double weights = 12 * features * static_cast<double>(config.embed_dim);
  return kProgram + kOfActivation * features * tokens + kOfWeight * weights;
}

}  // namespace

int default_processes(const ParsedOptions& options, const model::VitConfig& config) {
  for (const char* name : {"threads", "batch-size", "batch-size-maps"})
    if (options.given(name)) return 1;
  const std::vector<std::string> words = input_words(options);
  const bool reads_input = std::ranges::find(words, "-") != words.end();
  if (reads_input || !model::resolve_device(options.text("device")).is_cpu()) return 1;
  constexpr std::int64_t kMost = 4;
  const std::int64_t most =
      std::min({kMost, std::int64_t{available_processors()},
                static_cast<std::int64_t>(static_cast<double>(available_memory()) /
                                          bytes_of_process(config))});
  // Powers of two, which divide the batches.
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

training::ConversionOptions conversion_options(const ParsedOptions& options, const RunRequest& run,
                                               const image::TransformConfig& transform,
                                               c10::Device device, std::int64_t pictures) {
  constexpr std::int64_t kMapsWarmup = 20;
  constexpr std::int64_t kOutputsWarmup = 10;
  constexpr double kFinetuneWarmup = 0.05;
  const std::string& stage = options.text("stage");
  training::ConversionOptions conversion;
  training::StageOptions& maps = conversion.maps;
  maps.steps = stage == "finetune" ? 0 : options.integer("steps-maps");
  maps.learning_rate = options.number("lr-maps");
  maps.batch_size = options.integer("batch-size-maps");
  maps.warmup_steps = warmup(options, maps.steps, kMapsWarmup);
  training::StageOptions& outputs = conversion.outputs;
  outputs.steps = stage == "finetune" ? 0 : options.integer("steps-outputs");
  outputs.learning_rate = options.number("lr-outputs");
  outputs.batch_size = options.integer("batch-size");
  outputs.warmup_steps = warmup(options, outputs.steps, kOutputsWarmup);
  training::StageOptions& finetune = conversion.finetune;
  finetune.batch_size = options.integer("batch-size");
  conversion.trainer.accumulation = options.integer("grad-accum-steps");
  if (stage != "maps") {
    const auto of_a_step = static_cast<double>(
        finetune.batch_size * conversion.trainer.accumulation * run.launch.world_size);
    const double steps = options.number("epochs") * static_cast<double>(pictures) / of_a_step;
    finetune.steps = options.number("epochs") == 0
                         ? 0
                         : std::max<std::int64_t>(1, std::llround(std::floor(steps)));
  } else {
    finetune.steps = 0;
  }
  finetune.learning_rate = options.number("lr");
  finetune.min_learning_rate = std::min(options.number("min-lr"), finetune.learning_rate);
  finetune.warmup_steps = warmup(
      options, finetune.steps, std::llround(kFinetuneWarmup * static_cast<double>(finetune.steps)));
  finetune.evaluations = options.integer("evaluations");

  conversion.resolutions = resolutions_of(options, transform);
  training::StageOptions& sizes = conversion.sizes;
  sizes.steps = conversion.resolutions.sizes.empty() ? 0 : options.integer("steps-sizes");
  sizes.learning_rate = options.number("lr-sizes");
  sizes.min_learning_rate = std::min(options.number("min-lr"), sizes.learning_rate);
  sizes.batch_size = finetune.batch_size;
  sizes.warmup_steps = warmup(options, sizes.steps,
                              std::llround(kFinetuneWarmup * static_cast<double>(sizes.steps)));
  sizes.evaluations = options.integer("evaluations");

  conversion.of_maps.query_rows = options.integer("query-rows");
  conversion.outputs_cls_weight = options.number("outputs-cls-weight");
  conversion.outputs_rate_scale = options.number("outputs-lr-scale");
  conversion.hydra_start_batches = options.integer("hydra-start-batches");
  conversion.trains_head = options.flag("train-head");
  conversion.groups.layer_decay = options.number("layer-decay");
  maps.evaluations = options.integer("evaluations-maps");
  outputs.evaluations = options.integer("evaluations-outputs");
  conversion.hydra_start = {options.number("hydra-deviation"), options.number("hydra-offset")};
  conversion.starts_hydra = !options.flag("no-hydra-start");
  conversion.of_finetune.temperature = options.number("temperature");
  conversion.of_finetune.logits_weight = options.number("kl-weight");
  conversion.of_finetune.blocks_weight = options.number("blocks-weight");
  conversion.of_finetune.cls_weight = options.number("cls-weight");
  conversion.of_finetune.mixup = mixing_of(options);
  if (options.given("train-from")) conversion.train_from = options.integer("train-from");
  if (options.flag("model-ema")) conversion.average_decay = options.number("model-ema-decay");
  conversion.optimizer = optimizer_of(options);
  conversion.groups.weight_decay = options.number("weight-decay");
  conversion.groups.mechanism_rate_scale = options.number("mechanism-lr-scale");
  conversion.trainer.clip_norm = options.number("clip-grad");
  conversion.patience = options.integer("patience");
  constexpr double kSecondsOfAMinute = 60;
  if (options.given("max-minutes"))
    conversion.max_seconds = kSecondsOfAMinute * options.number("max-minutes");

  conversion.loader = loader_of(options, run, transform);
  conversion.loader.sampler.balance_sources = options.flag("balance-sources");
  conversion.trainer.seed = run.seed;
  conversion.trainer.device = device;
  conversion.trainer.autocast = autocast_of(options, device);
  conversion.trainer.log_every = options.integer("log-interval");
  conversion.steps_between_states = options.integer("recovery-interval");
  conversion.recent_states = static_cast<int>(options.integer("checkpoint-hist"));
  return conversion;
}

std::string conversion_recipe(const ParsedOptions& options, const std::string& architecture,
                              training::Autocast autocast, int processes) {
  Json recipe = Json::parse(recipe_of(options, autocast, processes));
  // The parent is known by its SHA-256 and the labels are in the file; where they lie says nothing.
  for (const char* name : {"model", "from", "labels", "format-only"}) recipe.erase(name);
  if (!architecture.empty()) recipe["arch"] = architecture;
  // A stage that does not run has no settings, so states of versions without it go on.
  if (!options.given("sizes"))
    for (const char* name : {"steps-sizes", "lr-sizes"}) recipe.erase(name);
  std::string starts;
  for (const std::string& start : options.texts("start"))
    starts += (starts.empty() ? "" : "; ") + name_and_sha256(start);
  if (!starts.empty()) recipe["start"] = starts;
  return recipe.dump();
}

}  // namespace hydrascope::app
