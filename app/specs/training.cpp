#include "app/specs/training.h"

#include "app/options/option_builders.h"
#include "app/options/option_table.h"
#include "app/run/usage_error.h"
#include "app/specs/specs.h"

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

image::Size parse_learned_size(const std::string& word) { return parse_size(word, "`sizes`"); }

}  // namespace

std::vector<Option> optimizer_options() {
  std::vector<Option> rows = in_section(
      "optimizer",
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
          integer("grad-accum-steps", "batches per update of the weights",
                  into(&TrainingOptions::accumulation), by_default("1"), at_least(1),
                  role(Role::step)),
      });
  rows.push_back(integer(
      "lora-rank", "LoRA: attention's weights learn by updates of this rank; 0: by themselves",
      into(&training::LowRankOptions::rank), takes("R"), by_default("0"), at_least(0)));
  return in_group("Optimizer", Role::task, std::move(rows));
}

std::vector<Option> augmentation_options() {
  return in_group(
      "Augmentation", Role::task,
      in_section("augment",
                 {
                     pair_of_numbers("scale", "MIN MAX",
                                     "area of the random crop, as a share of the picture",
                                     into(&training::AugmentOptions::scale), "0.08,1"),
                     share("hflip", "probability of a horizontal flip",
                           into(&training::AugmentOptions::hflip), "0.5"),
                     text("aa", "RandAugment, as rand-m9-n2-mstd0.5-inc1, or none",
                          for_field(&training::AugmentOptions::rand_augment), takes("POLICY"),
                          by_default("none")),
                     share("reprob", "probability of random erasing",
                           into(&training::AugmentOptions::erase_probability), "0"),
                 }));
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
      in_section(
          "augment",
          {
              number("mixup", "mix two pictures, their shares from Beta(X, X); 0: never",
                     into(&training::MixupOptions::mixup_alpha), "0"),
              number("cutmix",
                     "paste a part of one picture into another, its area from Beta(X, X); 0: never",
                     into(&training::MixupOptions::cutmix_alpha), "0"),
          }));
}

std::vector<Option> average_options() {
  return in_group(
      "Optimizer", Role::task,
      in_section("average",
                 {
                     flag("model-ema", "keep a moving average of the weights, judge it and save it",
                          into(&TrainingOptions::averages)),
                     share("model-ema-decay", "decay of the moving average of --set model-ema=on",
                           into(&TrainingOptions::average_decay), "0.9998"),
                 }));
}

std::vector<Option> training_run_options() {
  return in_group(
      "Run", Role::task,
      {
          text("resume",
               "go on with an earlier run; auto: from the newest state of the output, if there is "
               "one; or from the state in FILE",
               into(&ResumeRequest::word), takes("auto|FILE"), completes_files, role(Role::place)),
          integer("checkpoint-hist", "number of kept states, beside the best weights",
                  into(&TrainingOptions::recent_states), by_default("1"), at_least(1),
                  role(Role::place), keyed("run.checkpoint-hist")),
          number(
              "max-minutes",
              "minutes after which the run stops in good order; --resume auto goes on; 0: no limit",
              into(&TrainingOptions::max_minutes), otherwise("no limit"), at_least(0),
              role(Role::speed)),
          integer("cache-mb", "memory for decoded pictures in MiB; 0 decodes every time",
                  into(&TrainingOptions::cache_mebibytes), by_default("512"), at_least(0),
                  at_most(1 << 24), role(Role::speed), keyed("run.cache-mb")),
          text("amp-dtype", "number format of matrix products (automatic mixed precision)",
               into(&TrainingOptions::autocast, parse_autocast), by_default("auto"),
               one_of({"auto", "float32", "bfloat16"}),
               synonyms({{"fp32", "float32"}, {"bf16", "bfloat16"}}), keyed("run.amp-dtype")),
      });
}

std::vector<Option> training_settings(std::string_view command) {
  std::vector<Option> rows{
      integer("log-interval", "steps between two records of the log",
              into(&TrainingOptions::log_every), by_default("20"), at_least(1),
              keyed("run.log-interval"), role(Role::console)),
      integer("recovery-interval",
              "steps between states that are written besides the states of evaluations; 0: none",
              into(&TrainingOptions::steps_between_states),
              by_default(command == "convert" ? "200" : "0"), at_least(0),
              keyed("run.recovery-interval"), role(Role::place)),
      number("lora-alpha", "factor of --lora-rank's updates, divided by the rank",
             into(&training::LowRankOptions::alpha), otherwise("twice the rank"), at_least(0.001),
             keyed("lora.alpha")),
      text("lora-targets", "linear layers of --lora-rank, by name: qkv,proj,fc1,fc2",
           into(&training::LowRankOptions::targets), by_default("qkv,proj"),
           keyed("lora.targets"))};
  return in_group("Run", Role::task, std::move(rows));
}

Role role_of_setting(std::string_view command, std::string_view recorded) {
  for (const Option& option : find_command(command)->options)
    if (option.name == recorded) return option.role;
  return Role::task;
}

const std::string& recorded_name(std::string_view command, const Field& field) {
  const Option* option = find_option(*find_command(command), field);
  if (option == nullptr) throw Error(ErrorCode::internal, "no option fills the field");
  return option->name;
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
