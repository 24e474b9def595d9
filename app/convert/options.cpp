#include "app/convert/options.h"

#include "app/model_source.h"
#include "app/option_builders.h"
#include "app/training_options.h"
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

/// Layers that learn feature maps start near the teacher, which large steps would leave, as
/// measured (docs/training.md). Not the options' own defaults: `--dump-config` knows no model, and
/// what it says would count as the user's choice.
struct RecipeDefault {
  std::string_view option;
  std::string value;
  std::string with_learned_maps;
  bool is_shared = false;  ///< by the processes, each of which takes its part
};
const std::vector<RecipeDefault>& recipe_defaults() {
  static const std::vector<RecipeDefault> defaults = {
      {"lr", "1e-3", "6e-5"},           {"mechanism-lr-scale", "3", "20"},
      {"batch-size", "32", "16", true}, {"batch-size-maps", "8", "8", true},
      {"steps-outputs", "100", "0"},
  };
  return defaults;
}

std::vector<Option> file_options() {
  return in_group(
      "Conversion",
      {{.name = "from",
        .placeholder = "NAME|FILE|FOLDER",
        .help = "the model to convert: what the result learns from",
        .default_note = "the bundled softmax model",
        .completes_files = true},
       {.name = "output",
        .short_name = 'o',
        .placeholder = "FILE.safetensors",
        .help = "the file to write; states and logs lie beside it, in "
                "FILE.training",
        .completes_files = true},
       flag("format-only", "keep the weights as they are, bit for bit"),
       {.name = "stage",
        .help = "maps: the converted layers alone (learned maps, then --steps-outputs of attention "
                "outputs); finetune: end to end; both",
        .default_value = "both",
        .choices = {"maps", "finetune", "both"}},
       {.name = "start",
        .placeholder = "FILE",
        .help = "models that earlier conversions wrote: their layers of the same attention are "
                "taken over (of several models those of the last), and trained in the last stage "
                "alone",
        .default_note = "all layers begin with the weights of --from",
        .repeatable = true,
        .completes_files = true},
       {.name = "precision",
        .help = "number format of the weights in the new file",
        .default_note = "float32; with --format-only what the checkpoint has",
        .choices = {"float32", "float16", "bfloat16"},
        .aliases = {{"dtype"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}},
       flag("force", "replace a file that exists, begin a run anew")});
}

std::vector<Option> picture_options() {
  return in_group(
      "Input",
      {{.name = "input",
        .short_name = 'i',
        .placeholder = "PATH",
        .help = "pictures to learn from, labels are not needed: folder (with its folders), quoted "
                "glob, @list.txt, file; each one named is a source",
        .aliases = {{"source"}, {"data-dir"}},
        .repeatable = true,
        .completes_files = true},
       {.name = "held-out",
        .kind = ValueKind::number,
        .placeholder = "N|SHARE",
        .help = "pictures that are not learned from, to choose the best state by: about that "
                "number, or a "
                "share below 1; equally many of each source, and no more than a quarter of it",
        .default_value = "480",
        .minimum = 0.001},
       flag("balance-sources", "draw the sources equally often, whatever their sizes"),
       {.name = "eval",
        .placeholder = "FOLDER",
        .help = "labelled pictures: top-1 of the finished model (nothing is chosen by it)",
        .completes_files = true},
       {.name = "labels-csv",
        .placeholder = "FILE",
        .help = "labels of a flat --eval folder: a header with file and class_index (or synset) "
                "columns",
        .completes_files = true}});
}

std::vector<Option> stage_options() {
  return in_group(
      "Stages",
      {integer("steps-maps", "steps of the first stage: learned maps imitate attention rows",
               "1600"),
       number("lr-maps", "its learning rate", "1e-2"),
       integer("batch-size-maps", "its pictures of a batch, of each process", "", 1),
       integer("query-rows", "its attention rows of a picture", "49", 1),
       integer("steps-outputs", "steps of the second stage: attention outputs, layer by layer", ""),
       number("lr-outputs", "its learning rate", "1e-3"),
       number("outputs-lr-scale", "learning rate there of layers other than Hydra's over that",
              "0.5"),
       number("outputs-cls-weight", "weight of the class token's error beside that of all tokens",
              "0.5"),
       number("hydra-deviation", "deviation that q and k of Hydra layers start with", "0.3", 1e-3),
       number("hydra-offset", "their mean; 0 keeps them around zero", "1"),
       integer("hydra-start-batches", "batches that the start of Hydra layers is fitted to", "4",
               1),
       flag("no-hydra-start", "Hydra layers start with the weights of --from as they are"),
       number("epochs", "times through the pictures in the last stage: end to end", "5"),
       number("lr", "its learning rate", ""),
       number("min-lr", "where its cosine ends", "0"),
       {.name = "warmup-steps",
        .kind = ValueKind::integer,
        .placeholder = "N",
        .help = "steps of growing learning rate",
        .default_note = "20 for maps, 10 for outputs, a twentieth of the last stage",
        .minimum = 0},
       number("temperature", "of the logits", "1", 0.01),
       number("kl-weight", "weight of the logits' divergence", "1"),
       number("blocks-weight", "weight of the relative error of the blocks' outputs", "4"),
       number("cls-weight", "weight of the class token's error beside that of all tokens", "0"),
       number("mechanism-lr-scale",
              "learning rate of learned maps and scales over that of the rest", ""),
       {.name = "train-from",
        .kind = ValueKind::integer,
        .placeholder = "LAYER",
        .help = "first block that learns in the last stage; patch embedding and position embedding "
                "never do, the classifier with --train-head",
        .default_note = "the first converted one",
        .minimum = 0},
       flag("train-head", "the classifier learns too, in the last stage"),
       integer("evaluations-maps", "looks at the held-out pictures in the first stage", "2", 1),
       integer("evaluations-outputs", "the same in the second stage", "2", 1),
       integer("evaluations", "the same in the last stage", "10", 1),
       integer("patience", "a stage ends after so many of them without a better one; 0: never",
               "0")});
}

std::vector<Option> optimizer() {
  return with_defaults(optimizer_options(),
                       {{"weight-decay", "0.02"}, {"opt-betas", "0.9,0.99"}, {"clip-grad", "1"}});
}

std::vector<Option> report_options() {
  std::vector<Option> options = without(output_options(), {"output"});
  options.push_back({.name = "report",
                     .placeholder = "FILE.json|FILE.html",
                     .help = "the report as a file as well; HTML has curves",
                     .repeatable = true,
                     .group = "Output",
                     .completes_files = true});
  options.push_back({.name = "require-top1",
                     .kind = ValueKind::number,
                     .placeholder = "PCT",
                     .help = "exit with 4 when top-1 on --eval is below",
                     .group = "Output"});
  return options;
}

/// What makes sense of the shared options.
std::vector<Option> architecture_options() {
  std::vector<Option> model = without(model_options(), {"checkpoint", "pos-interp"});
  for (Option& option : model) {
    if (option.name == "num-classes" || option.name == "reset-head")
      option.help += " (with --format-only)";
    if (option.name != "model") continue;
    option.help = "architecture of the checkpoint";
    option.placeholder = "NAME";
    option.default_note = "what its names and shapes show";
    option.completes_files = false;
  }
  return model;
}

std::int64_t warmup(const ParsedOptions& options, std::int64_t steps, std::int64_t otherwise) {
  return std::min(options.given("warmup-steps") ? options.integer("warmup-steps") : otherwise,
                  std::max<std::int64_t>(0, steps - 1));
}

}  // namespace

CommandSpec convert_spec() {
  CommandSpec spec;
  spec.name = "convert";
  spec.aliases = {"distill"};
  spec.summary = "give a trained model another attention, or rewrite a checkpoint of others";
  spec.positionals = "[PICTURES...], or IN OUT with --format-only";
  spec.options = join(
      {file_options(), picture_options(), training_input_options(), architecture_options(),
       stage_options(), with_defaults(augmentation_options(), {{"scale", "0.3,1"}}),
       with_defaults(mixing_options(), {{"mixup", "1"}, {"cutmix", "1"}, {"mixup-prob", "0.7"}}),
       optimizer(),
       without(with_defaults(average_options(), {{"model-ema-decay", "0.99"}}),
               {"model-ema-warmup"}),
       with_defaults(training_run_options(), {{"recovery-interval", "200"}}),
       preprocessing_options(),
       training_runtime_options(
           "",
           "one a core on the CPU, up to 4, where neither --threads nor a --batch-size is given"),
       launch_options(), report_options(), without(label_options(), {"label-type"}),
       general_options()});
  for (const RecipeDefault& entry : recipe_defaults()) {
    const auto option = std::ranges::find(spec.options, entry.option, &Option::name);
    option->default_note = entry.value;
    if (entry.with_learned_maps != entry.value)
      option->default_note += "; where feature maps are learned: " + entry.with_learned_maps;
    if (entry.is_shared) option->default_note += ", shared among the processes";
  }
  spec.examples = {
      "hydrascope convert --attn hydra:last2 -i photos/ -o hydra_last2.safetensors",
      "hydrascope convert --from softmax.safetensors --attn hedgehog -i photos/ -i '@more.txt' -o "
      "hedgehog.safetensors --report hedgehog.html",
      "hydrascope convert --attn hedgehog,hydra:last2 -i photos/ -o mixed.safetensors --precision "
      "float16 --resume auto",
      "hydrascope convert --attn hydra:last4 -i photos/ -o out.safetensors --eval labelled/ "
      "--require-top1 75",
      "hydrascope convert --format-only deit_base.pth deit_base.safetensors",
      "hydrascope convert --format-only --precision float16 vit-base-patch16-224/ vit.safetensors",
  };
  return spec;
}

namespace {

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
  const auto tokens =
      static_cast<double>(config.grid_rows() * config.grid_columns() + config.num_prefix_tokens());
  const double weights = 12 * features * static_cast<double>(config.embed_dim);
  return kProgram + kOfActivation * features * tokens + kOfWeight * weights;
}

}  // namespace

ParsedOptions with_recipe_defaults(ParsedOptions options, bool learns_maps, int processes) {
  for (const RecipeDefault& entry : recipe_defaults()) {
    if (options.given(entry.option)) continue;
    std::string value = learns_maps ? entry.with_learned_maps : entry.value;
    if (entry.is_shared)
      value = std::to_string(std::max<std::int64_t>(1, to_integer(value, "") / processes));
    options = options.with(entry.option, {std::move(value)});
  }
  return options;
}

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

training::ConversionOptions conversion_options(const ParsedOptions& options,
                                               const image::TransformConfig& transform,
                                               c10::Device device, std::int64_t pictures,
                                               const training::LaunchEnvironment& launch) {
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
  conversion.accumulation = options.integer("grad-accum-steps");
  if (stage != "maps") {
    const auto of_a_step =
        static_cast<double>(finetune.batch_size * conversion.accumulation * launch.world_size);
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

  conversion.of_maps.query_rows = options.integer("query-rows");
  conversion.outputs_cls_weight = options.number("outputs-cls-weight");
  conversion.outputs_rate_scale = options.number("outputs-lr-scale");
  conversion.hydra_start_batches = options.integer("hydra-start-batches");
  conversion.trains_head = options.flag("train-head");
  conversion.layer_decay = options.number("layer-decay");
  maps.evaluations = options.integer("evaluations-maps");
  outputs.evaluations = options.integer("evaluations-outputs");
  conversion.hydra_start = {options.number("hydra-deviation"), options.number("hydra-offset")};
  conversion.starts_hydra = !options.flag("no-hydra-start");
  conversion.temperature = options.number("temperature");
  conversion.logits_weight = options.number("kl-weight");
  conversion.blocks_weight = options.number("blocks-weight");
  conversion.cls_weight = options.number("cls-weight");
  conversion.mixup = mixing_of(options);
  if (options.given("train-from")) conversion.train_from = options.integer("train-from");
  if (options.flag("model-ema")) conversion.average_decay = options.number("model-ema-decay");
  conversion.optimizer = optimizer_of(options);
  conversion.weight_decay = options.number("weight-decay");
  conversion.mechanism_rate_scale = options.number("mechanism-lr-scale");
  conversion.clip_norm = options.number("clip-grad");
  conversion.patience = options.integer("patience");
  constexpr double kSecondsOfAMinute = 60;
  if (options.given("max-minutes"))
    conversion.max_seconds = kSecondsOfAMinute * options.number("max-minutes");

  conversion.loader = loader_of(options, transform, launch);
  conversion.loader.sampler.balance_sources = options.flag("balance-sources");
  conversion.seed = static_cast<std::uint64_t>(options.integer("seed"));
  conversion.device = device;
  conversion.autocast = autocast_of(options, device);
  conversion.log_every = options.integer("log-interval");
  conversion.steps_between_states = options.integer("recovery-interval");
  conversion.recent_states = static_cast<int>(options.integer("checkpoint-hist"));
  return conversion;
}

std::string conversion_recipe(const ParsedOptions& options, training::Autocast autocast,
                              int processes) {
  Json recipe = Json::parse(recipe_of(options, autocast, processes));
  // The parent is known by its SHA-256 and the labels are in the file; where they lie says nothing.
  for (const char* name : {"from", "labels", "format-only"}) recipe.erase(name);
  std::string starts;
  for (const std::string& start : options.texts("start"))
    starts += (starts.empty() ? "" : "; ") + name_and_sha256(start);
  if (!starts.empty()) recipe["start"] = starts;
  return recipe.dump();
}

}  // namespace hydrascope::app
