// The table of `hydrascope train`.
#include "app/command.h"
#include "app/option_builders.h"
#include "app/specs/training.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

std::vector<Option> data_options() {
  return {{.name = "input",
           .short_name = 'i',
           .placeholder = "FOLDER",
           .help = "as the argument: a folder with train and val, or with one folder per class",
           .aliases = {{"source"}, {"data-dir"}},
           .repeatable = true,
           .group = "Input",
           .completes_files = true},
          {.name = "train-split",
           .placeholder = "NAME",
           .help = "folder in FOLDER that is learned from",
           .default_value = "train",
           .group = "Input"},
          {.name = "val-split",
           .placeholder = "NAME",
           .help = "folder in FOLDER to validate on",
           .default_note = "val, validation or test, whichever is there",
           .group = "Input"},
          {.name = "held-out",
           .kind = ValueKind::number,
           .placeholder = "N|SHARE",
           .help = "pictures to validate on: about this number, or a share below 1; they are not "
                   "learned from, and there must be no folder of others",
           .default_value = "0",
           .minimum = 0,
           .group = "Input"}};
}

std::vector<Option> schedule_options() {
  const auto number = [](const char* name, const char* help, const char* value) {
    return Option{.name = name,
                  .kind = ValueKind::number,
                  .placeholder = "X",
                  .help = help,
                  .default_value = value,
                  .minimum = 0,
                  .group = "Schedule"};
  };
  const auto epochs = [](const char* name, const char* help, const char* value, double minimum) {
    return Option{.name = name,
                  .kind = ValueKind::integer,
                  .placeholder = "N",
                  .help = help,
                  .default_value = value,
                  .minimum = minimum,
                  .group = "Schedule"};
  };
  Option rate = number("lr", "largest learning rate", "");
  rate.default_note = "5e-4 x pictures per update / 512";
  Option min_rate = number("min-lr", "smallest learning rate", "");
  min_rate.default_note = "1e-5, but at most a hundredth of --lr";
  Option warmup = epochs("warmup-epochs", "epochs of growing learning rate at the start", "", 0);
  warmup.default_note = "5, or all but one of fewer --epochs";
  return {
      epochs("epochs", "times through the training pictures", "300", 1),
      rate,
      {.name = "sched",
       .help = "course of the learning rate over the run, updated every step",
       .default_value = "cosine",
       .choices = {"cosine", "linear", "step", "multistep", "constant"},
       .group = "Schedule"},
      min_rate,
      warmup,
      number("warmup-lr", "learning rate that --warmup-epochs start from", "1e-6"),
      epochs("decay-epochs", "epochs between two steps of --sched step", "90", 1),
      {.name = "decay-milestones",
       .kind = ValueKind::integer,
       .placeholder = "N,N",
       .help = "epochs at which --sched multistep steps",
       .comma_list = true,
       .minimum = 1,
       .group = "Schedule"},
      number("decay-rate", "factor of the learning rate at a step of --sched step and multistep",
             "0.1"),
  };
}

std::vector<Option> loss_options() {
  return {{.name = "smoothing",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "label smoothing",
           .default_value = "0.1",
           .minimum = 0,
           .maximum = 0.99,
           .group = "Loss"},
          {.name = "drop-path",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "stochastic depth: share of dropped paths in the last block, growing from 0",
           .default_value = "0",
           .minimum = 0,
           .maximum = 0.9,
           .group = "Loss"},
          {.name = "teacher",
           .placeholder = "MODEL",
           .help = "model to learn from besides the labels: a bundled name, file or folder",
           .group = "Loss",
           .completes_files = true},
          {.name = "distillation-type",
           .help = "learn from the probabilities of --teacher (soft), or its decisions (hard)",
           .default_value = "hard",
           .choices = {"soft", "hard"},
           .group = "Loss"},
          {.name = "distillation-alpha",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "share of --teacher in the loss",
           .default_value = "0.5",
           .minimum = 0,
           .maximum = 1,
           .group = "Loss"},
          {.name = "distillation-tau",
           .kind = ValueKind::number,
           .placeholder = "T",
           .help = "temperature of --distillation-type soft",
           .default_value = "1",
           .minimum = 0.01,
           .group = "Loss"}};
}

std::vector<Option> parameter_options() {
  return {{.name = "freeze",
           .placeholder = "GLOB",
           .help = "parameters that do not learn: 'blocks.0.*', 'patch_embed.*'",
           .repeatable = true,
           .group = "Optimizer"},
          {.name = "train-only",
           .placeholder = "GLOB",
           .help = "parameters that learn, and no others: 'head.*'",
           .repeatable = true,
           .group = "Optimizer"},
          {.name = "grad-checkpointing",
           .kind = ValueKind::flag,
           .help = "save memory: compute blocks again in the backward pass",
           .group = "Run"}};
}

std::vector<Option> output() {
  std::vector<Option> options = output_options();
  for (Option& option : options) {
    if (option.name != "output") continue;
    option.placeholder = "FOLDER";
    option.help = "folder of the run: weights, states, logs";
    option.default_note = "output/train/MODEL-ATTENTION";
    option.aliases = {};
  }
  options.push_back({.name = "force",
                     .kind = ValueKind::flag,
                     .help = "begin anew in a folder that already holds a run",
                     .group = "Output"});
  return options;
}

}  // namespace

CommandSpec train_spec() {
  CommandSpec spec;
  spec.name = "train";
  spec.summary = "train a model from scratch, or fine-tune one, on a folder of classes";
  spec.group = "Make and inspect models";
  spec.positionals = "FOLDER";
  spec.options =
      join({data_options(), training_input_options(), model_options(), output(), schedule_options(),
            training_run_options(), training_runtime_options("64", "1"), launch_options(),
            loss_options(), optimizer_options(), parameter_options(), average_options(),
            augmentation_options(), mixing_options(), resolution_options(),
            hide(preprocessing_options(), {"native"}), without(label_options(), {"label-type"}),
            general_options()});
  spec.common = {"model",      "attn",   "img-size", "epochs",    "lr",
                 "batch-size", "output", "resume",   "processes", "device"};
  spec.examples = {
      "hydrascope train photos/ -m deit_tiny_patch16_224.softmax --reset-head --epochs 10 --lr "
      "1e-4",
      "hydrascope train imagenette/ -m deit_tiny_patch8_64 --attn hydra --epochs 30 -o runs/hydra",
      "torchrun --nproc-per-node 2 --no-python hydrascope train imagenette/ -m deit_tiny_patch8_64 "
      "-o runs/two",
      "hydrascope train imagenette/ -o runs/hydra --resume auto -m deit_tiny_patch8_64 --attn "
      "hydra",
  };
  return spec;
}

}  // namespace hydrascope::app
