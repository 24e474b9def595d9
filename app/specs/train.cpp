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
           .help = "as the argument: a folder with train and val, or a folder a class",
           .aliases = {{"source"}, {"data-dir"}},
           .repeatable = true,
           .group = "Input",
           .completes_files = true},
          {.name = "train-split",
           .placeholder = "NAME",
           .help = "sub-folder that is trained on",
           .default_value = "train",
           .group = "Input"},
          {.name = "val-split",
           .placeholder = "NAME",
           .help = "sub-folder that is validated on",
           .default_note = "val, validation or test, whichever is there",
           .group = "Input"},
          {.name = "held-out",
           .kind = ValueKind::number,
           .placeholder = "SHARE",
           .help = "validate on that share of the training pictures where there is no such folder",
           .default_value = "0",
           .minimum = 0,
           .maximum = 0.9,
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
  rate.default_note = "5e-4 times pictures of an update / 512";
  Option min_rate = number("min-lr", "smallest learning rate", "");
  min_rate.default_note = "1e-5, but at most a hundredth of --lr";
  Option warmup = epochs("warmup-epochs", "epochs of growing learning rate", "", 0);
  warmup.default_note = "5, or all but one of fewer --epochs";
  return {
      epochs("epochs", "times through the training pictures", "300", 1),
      rate,
      {.name = "sched",
       .help = "learning rate over the run, updated every step",
       .default_value = "cosine",
       .choices = {"cosine", "linear", "step", "multistep", "constant"},
       .group = "Schedule"},
      min_rate,
      warmup,
      number("warmup-lr", "where it starts", "1e-6"),
      epochs("decay-epochs", "epochs between two steps of `step`", "90", 1),
      {.name = "decay-milestones",
       .kind = ValueKind::integer,
       .placeholder = "N,N",
       .help = "epochs at which `multistep` steps",
       .comma_list = true,
       .minimum = 1,
       .group = "Schedule"},
      number("decay-rate", "factor of a step", "0.1"),
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
           .help = "stochastic depth of the last block; it grows linearly from 0",
           .default_value = "0",
           .minimum = 0,
           .maximum = 0.9,
           .group = "Loss"},
          {.name = "teacher",
           .placeholder = "MODEL",
           .help = "a model to learn from: a bundled name, a file or a folder",
           .group = "Loss",
           .completes_files = true},
          {.name = "distillation-type",
           .help = "learn from the teacher's probabilities or from its decisions (DeiT)",
           .default_value = "hard",
           .choices = {"soft", "hard"},
           .group = "Loss"},
          {.name = "distillation-alpha",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "share of the teacher in the loss",
           .default_value = "0.5",
           .minimum = 0,
           .maximum = 1,
           .group = "Loss"},
          {.name = "distillation-tau",
           .kind = ValueKind::number,
           .placeholder = "T",
           .help = "temperature of soft distillation",
           .default_value = "1",
           .minimum = 0.01,
           .group = "Loss"}};
}

std::vector<Option> parameter_options() {
  return {
      {.name = "freeze",
       .placeholder = "GLOB",
       .help = "parameters that stay as they are: 'blocks.0.*', 'patch_embed.*'",
       .repeatable = true,
       .group = "Optimizer"},
      {.name = "train-only",
       .placeholder = "GLOB",
       .help = "all others stay as they are: 'head.*'",
       .repeatable = true,
       .group = "Optimizer"},
      {.name = "grad-checkpointing",
       .kind = ValueKind::flag,
       .help = "compute blocks again in the backward pass instead of keeping what they computed",
       .group = "Run"}};
}

std::vector<Option> output() {
  std::vector<Option> options = output_options();
  for (Option& option : options) {
    if (option.name != "output") continue;
    option.placeholder = "FOLDER";
    option.help = "where the run is kept: weights, states, logs";
    option.default_note = "output/train/MODEL-ATTENTION";
    option.aliases = {};
  }
  options.push_back({.name = "force",
                     .kind = ValueKind::flag,
                     .help = "begin anew in a folder that holds a run",
                     .group = "Output"});
  return options;
}

}  // namespace

CommandSpec train_spec() {
  CommandSpec spec;
  spec.name = "train";
  spec.summary = "train a model from scratch, or fine-tune one";
  spec.positionals = "FOLDER";
  spec.options =
      join({data_options(), training_input_options(), model_options(), preprocessing_options(),
            augmentation_options(), mixing_options(), loss_options(), schedule_options(),
            optimizer_options(), parameter_options(), average_options(), training_run_options(),
            training_runtime_options("64", "1"), launch_options(), output(),
            without(label_options(), {"label-type"}), general_options()});
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
