#include "app/specs/training.h"

#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/run/usage_error.h"
#include "app/specs/specs.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {

namespace training = model::training;

namespace {

template <std::invocable<Option&> Binding>
Option pair_of_numbers(std::string name, std::string placeholder, std::string help,
                       const Binding& binding, std::string default_value) {
  return number(std::move(name), std::move(help), binding, takes(std::move(placeholder)),
                by_default(std::move(default_value)), values(2), at_least(0));
}

training::OptimizerKind parse_optimizer(const std::string& word) {
  return word == "sgd" ? training::OptimizerKind::sgd : training::OptimizerKind::adamw;
}

/// Nothing for "auto".
std::optional<training::Autocast> parse_autocast(const std::string& word) {
  if (word == "bfloat16") return training::Autocast::bfloat16;
  if (word == "float32") return training::Autocast::off;
  return std::nullopt;
}

training::Target parse_target(const std::string& word) {
  return word == name(training::Target::features) ? training::Target::features
                                                  : training::Target::logits;
}

image::Size parse_learned_size(const std::string& word) { return parse_size(word, "`sizes`"); }

}  // namespace

std::vector<Option> optimizer_options() {
  return in_group(
      "Optimizer", Role::task,
      {
          text("opt", "optimizer; sgd: with Nesterov's momentum, as timm's sgd",
               into(&training::OptimizerOptions::kind, parse_optimizer), by_default("adamw"),
               one_of({"adamw", "sgd"})),
          number("weight-decay",
                 "decay of the weights, but not of norms, biases, tokens and positions",
                 into(&training::ParameterGroupOptions::weight_decay), "0.05"),
          number("momentum", "Nesterov's momentum of SGD",
                 into(&training::OptimizerOptions::momentum), "0.9"),
          pair_of_numbers("opt-betas", "B1 B2", "betas of AdamW",
                          into(&training::OptimizerOptions::betas), "0.9,0.999"),
          number("layer-decay", "learning rate of a layer, relative to that of the next layer",
                 into(&training::ParameterGroupOptions::layer_decay), by_default("1"),
                 at_least(0.01), at_most(1)),
          number("clip-grad", "clip gradients to this joint norm; 0: never",
                 into(&TrainingOptions::clip_norm), takes("NORM"), by_default("0"), at_least(0)),
          integer("lora-rank",
                  "LoRA: attention's weights learn by updates of this rank; 0: by themselves",
                  into(&training::LowRankOptions::rank), takes("R"), by_default("0"), at_least(0)),
          integer("grad-accum-steps", "batches per update of the weights",
                  into(&TrainingOptions::accumulation), by_default("1"), at_least(1),
                  role(Role::step)),
      });
}

std::vector<Option> augmentation_options() {
  return in_group(
      "Augmentation", Role::task,
      {
          pair_of_numbers("scale", "MIN MAX", "area of the random crop, as a share of the picture",
                          into(&training::AugmentOptions::scale), "0.08,1"),
          share("hflip", "probability of a horizontal flip", into(&training::AugmentOptions::hflip),
                "0.5"),
          text("aa", "RandAugment, as rand-m9-n2-mstd0.5-inc1, or none",
               for_field(&training::AugmentOptions::rand_augment), takes("POLICY"),
               by_default("none")),
          share("reprob", "probability of random erasing",
                into(&training::AugmentOptions::erase_probability), "0"),
      });
}

std::vector<Option> resolution_options() {
  return in_group(
      "Resolution", Role::task,
      {text("sizes",
            "sizes to learn, with about the same share of the computation each; the teacher sees "
            "--img-size",
            into(&TrainingOptions::sizes, parse_learned_size), takes("N|HxW,..."), comma_list),
       text("scenes", "backgrounds of small pictures, for --sizes: folder, glob, @list.txt",
            into(&TrainingOptions::scenes), takes("PATH"), completes_files)});
}

std::vector<Option> mixing_options() {
  return in_group(
      "Augmentation", Role::task,
      {
          number("mixup", "mix two pictures, their shares from Beta(X, X); 0: never",
                 into(&training::MixupOptions::mixup_alpha), "0"),
          number("cutmix",
                 "paste a part of one picture into another, its area from Beta(X, X); 0: never",
                 into(&training::MixupOptions::cutmix_alpha), "0"),
      });
}

std::vector<Option> average_options() {
  return in_group(
      "Optimizer", Role::task,
      {
          flag("model-ema", "keep a moving average of the weights, judge it and save it",
               into(&TrainingOptions::averages)),
          share("model-ema-decay", "decay of the moving average of --model-ema",
                into(&TrainingOptions::average_decay), "0.9998"),
      });
}

std::vector<Option> training_run_options(std::string_view command) {
  std::vector<std::string> settings;
  for (const auto& [option, recorded] : run_settings(command))
    settings.push_back(option.name + "=" + option.default_value);
  return in_group(
      "Run", Role::task,
      {
          text("resume",
               "go on with an earlier run; auto: from the newest state of the output, if there is "
               "one; or from the state in FILE",
               into(&ResumeRequest::word), takes("auto|FILE"), completes_files, role(Role::place)),
          integer("checkpoint-hist", "number of kept states, beside the best weights",
                  into(&TrainingOptions::recent_states), by_default("1"), at_least(1),
                  role(Role::place)),
          number(
              "max-minutes",
              "minutes after which the run stops in good order; --resume auto goes on; 0: no limit",
              into(&TrainingOptions::max_minutes), otherwise("no limit"), at_least(0),
              role(Role::speed)),
          integer("cache-mb", "memory for decoded pictures in MiB; 0 decodes every time",
                  into(&TrainingOptions::cache_mebibytes), by_default("512"), at_least(0),
                  at_most(1 << 24), role(Role::speed)),
          text("amp-dtype", "number format of matrix products (automatic mixed precision)",
               into(&TrainingOptions::autocast, parse_autocast), by_default("auto"),
               one_of({"auto", "float32", "bfloat16"}),
               synonyms({{"fp32", "float32"}, {"bf16", "bfloat16"}})),
          text("set", "a setting that few runs change (docs/training.md lists them)",
               into(&TrainingOptions::settings), takes("STAGE.KEY=VALUE"), repeatable,
               suggests(settings)),
      });
}

std::vector<RunSetting> run_settings(std::string_view command) {
  std::vector<RunSetting> settings{
      {integer("run.log-interval", "steps between two records of the log",
               into(&TrainingOptions::log_every), by_default("20"), at_least(1),
               role(Role::console))},
      {integer("run.recovery-interval",
               "steps between states that are written besides the states of evaluations; 0: none",
               into(&TrainingOptions::steps_between_states),
               by_default(command == "convert" ? "200" : "0"), at_least(0), role(Role::place))}};
  settings.push_back({number("lora.alpha", "factor of --lora-rank's updates, divided by the rank",
                             into(&training::LowRankOptions::alpha), otherwise("twice the rank"),
                             at_least(0.001), role(Role::task)),
                      "lora-alpha"});
  settings.push_back(
      {text("lora.targets", "linear layers of --lora-rank, by name: qkv,proj,fc1,fc2",
            into(&training::LowRankOptions::targets), by_default("qkv,proj"), role(Role::task)),
       "lora-targets"});
  if (command == "train") {
    const auto add = [&](Option option) {
      const std::size_t dot = option.name.find('.');
      std::string recorded = option.name.substr(dot + 1);
      settings.push_back({std::move(option), std::move(recorded)});
    };
    add(text("model.residual", "how a new model's blocks join their stream",
             into(&ModelRequest::residual, model::find_residual), otherwise("add"),
             one_of({"add", "reversible", "gru"}), role(Role::task)));
    add(integer("model.share-blocks", "blocks that a new model's layers share in turn; 0: none",
                into(&ModelRequest::share_blocks), otherwise("0"), at_least(0), role(Role::task)));
    add(text("model.step-embed", "each pass through shared blocks adds the signal of its number",
             into(&ModelRequest::step_embed, is_on), otherwise("off"), one_of({"on", "off"}),
             role(Role::task)));
    add(text("model.halting", "tokens leave when their scores say so",
             into(&ModelRequest::halting, is_on), otherwise("off"), one_of({"on", "off"}),
             role(Role::task)));
    add(number("model.gate-scale", "scale of the halting scores", into(&ModelRequest::gate_scale),
               otherwise("10"), role(Role::task)));
    add(number("model.gate-center", "centre of the halting scores; large: no token leaves",
               into(&ModelRequest::gate_center), otherwise("30"), role(Role::task)));
    add(number("loss.ponder", "weight of the layers that a token takes, where tokens halt",
               into(&training::ClassificationOptions::ponder_weight), otherwise("5e-4"),
               at_least(0), role(Role::task)));
    add(integer("run.mlp-chunks", "parts in which MLPs take the tokens, to save memory",
                into(&training::ClassificationOptions::mlp_chunks), otherwise("1"), at_least(1),
                role(Role::step)));
  }
  if (command != "convert") return settings;
  settings.push_back(
      {integer("maps.batch-size", "pictures per batch and process in stage 1",
               into(&ConvertOptions::batch_size_maps), at_least(1), role(Role::step)),
       "batch-size-maps"});
  settings.push_back(
      {integer("last.evaluations", "looks at the held-out pictures in the last stages",
               into(&ConvertOptions::evaluations), by_default("10"), at_least(1), role(Role::task)),
       "evaluations"});
  settings.push_back({number("sizes.lr", "largest learning rate of --sizes",
                             into(&ConvertOptions::sizes_learning_rate), by_default("1e-4"),
                             at_least(0), role(Role::task)),
                      "lr-sizes"});
  settings.push_back(
      {text("last.target", "answers that are learned; a model without classes has features alone",
            into(&ConvertOptions::target, parse_target),
            otherwise("logits where there are classes"),
            one_of({std::string(name(training::Target::logits)),
                    std::string(name(training::Target::features))}),
            role(Role::task)),
       "target"});
  settings.push_back({number("exits.lr", "largest learning rate of --exits",
                             into(&ConvertOptions::exits_learning_rate), by_default("4e-4"),
                             at_least(0), role(Role::task)),
                      "lr-exits"});
  return settings;
}

Role role_of_setting(std::string_view command, std::string_view recorded) {
  for (const RunSetting& setting : run_settings(command))
    if (setting.recorded == recorded) return setting.option.role;
  const OptionMatch match = find_option(*find_command(command), recorded);
  return match ? match.option->role : Role::task;
}

const std::string& recorded_name(std::string_view command, const Field& field) {
  static const std::map<std::string_view, std::vector<RunSetting>, std::less<>> kSettings{
      {"train", run_settings("train")}, {"convert", run_settings("convert")}};
  for (const RunSetting& setting : kSettings.find(command)->second)
    if (setting.option.field == field) return setting.recorded;
  const Option* option = find_option(*find_command(command), field);
  if (option == nullptr) throw Error(ErrorCode::internal, "no option fills the field");
  return option->name;
}

std::map<std::string, std::string> words_of_settings(std::string_view command,
                                                     const std::vector<std::string>& words) {
  const std::vector<RunSetting> known = run_settings(command);
  std::vector<std::string> names;
  for (const RunSetting& setting : known) names.push_back(setting.option.name);
  std::map<std::string, std::string> values;
  for (const std::string& word : words) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = with_dashes(word.substr(0, equals));
    const auto found = std::ranges::find(names, name);
    if (found == names.end() || equals == word.size()) {
      const std::string near = nearest(name, names);
      throw UsageError(found == names.end() ? "no such setting" : "expected KEY=VALUE",
                       "`set` " + word,
                       found == names.end() && !near.empty()
                           ? "did you mean " + near + "?"
                           : std::string(command) + " has " + join_words(names, ", ", " and "));
    }
    const Option& option = known[static_cast<std::size_t>(found - names.begin())].option;
    values[name] = check_values(option, {word.substr(equals + 1)}, "`set` " + name).front();
  }
  return values;
}

ParsedOptions settings_of(std::string_view command, const std::vector<std::string>& words) {
  CommandSpec spec;
  spec.name = command;
  for (RunSetting& setting : run_settings(command))
    spec.options.push_back(std::move(setting.option));
  ParsedOptions settings = parse(spec, {});
  for (const auto& [name, word] : words_of_settings(command, words))
    settings.set(name, word, "`set` " + name);
  return settings;
}

std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes) {
  std::vector<Option> options = without(
      runtime_options(), {&RunRequest::precision, &RunRequest::calibration, &RunRequest::kernels});
  Option& batch = row_of(options, &RunRequest::batch_size);
  batch.help = "pictures per batch and process";
  batch.default_note = "";
  batch.default_value = batch_size;
  options.push_back(integer("processes",
                            "number of processes on this machine; the program starts them",
                            into(&TrainingOptions::processes), otherwise(processes), at_least(1),
                            at_most(1024), in("Runtime"), role(Role::step)));
  return options;
}

std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<Field, std::string>>& values) {
  for (const auto& [field, value] : values) row_of(options, field).default_value = value;
  return options;
}

std::vector<Option> training_input_options() {
  return without(input_options(), {&PicturesRequest::recursive, &image::DecodeOptions::max_bytes});
}

}  // namespace hydrascope::app
