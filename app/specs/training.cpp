#include "app/specs/training.h"

#include "app/option_builders.h"
#include "kernels/error.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {
namespace {

Option pair_of_numbers(std::string name, std::string placeholder, std::string help,
                       std::string default_value) {
  return {.name = std::move(name),
          .kind = ValueKind::number,
          .placeholder = std::move(placeholder),
          .help = std::move(help),
          .default_value = std::move(default_value),
          .values = 2,
          .minimum = 0};
}

}  // namespace

std::vector<Option> optimizer_options() {
  return in_group(
      "Optimizer",
      {
          {.name = "opt",
           .help = "optimizer",
           .default_value = "adamw",
           .choices = {"adamw", "sgd"}},
          number("weight-decay",
                 "decay of the weights, but not of norms, biases, tokens and positions", "0.05"),
          number("momentum", "momentum of SGD", "0.9"),
          pair_of_numbers("opt-betas", "B1 B2", "betas of AdamW", "0.9,0.999"),
          number("opt-eps", "epsilon of AdamW", "1e-8"),
          {.name = "layer-decay",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "learning rate of a layer, relative to that of the next layer",
           .default_value = "1",
           .minimum = 0.01,
           .maximum = 1},
          {.name = "clip-grad",
           .kind = ValueKind::number,
           .placeholder = "NORM",
           .help = "clip gradients to this joint norm; 0: never",
           .default_value = "0",
           .minimum = 0},
          integer("grad-accum-steps", "batches per update of the weights", "1", 1),
      });
}

std::vector<Option> augmentation_options() {
  return in_group(
      "Augmentation",
      {
          pair_of_numbers("scale", "MIN MAX", "area of the random crop, as a share of the picture",
                          "0.08,1"),
          pair_of_numbers("ratio", "MIN MAX", "width over height of the random crop",
                          "0.75,1.3333333333333333"),
          share("hflip", "probability of a horizontal flip", "0.5"),
          share("vflip", "probability of a vertical flip", "0"),
          number("color-jitter",
                 "strength of changes of brightness, contrast and saturation; not with --aa", "0"),
          {.name = "aa",
           .placeholder = "POLICY",
           .help = "RandAugment, as rand-m9-n2-mstd0.5-inc1, or none",
           .default_value = "none"},
          share("reprob", "probability of random erasing", "0"),
          {.name = "remode",
           .help = "what random erasing fills in: noise (pixel) or zeros (const)",
           .default_value = "pixel",
           .choices = {"pixel", "const"}},
          integer("recount", "rectangles that random erasing takes from a picture", "1", 1),
          {.name = "train-interpolation",
           .help = "filter of the random crop",
           .default_value = "random",
           .choices = {"random", "bilinear", "bicubic"}},
          integer("aug-repeats", "repetitions of a picture in an epoch, one right after the other",
                  "0"),
      });
}

std::vector<Option> resolution_options() {
  return in_group(
      "Resolution",
      {{.name = "sizes",
        .placeholder = "N|HxW,...",
        .help = "picture sizes to learn, each with about the same share of the computation; the "
                "teacher sees --img-size",
        .comma_list = true},
       {.name = "scenes",
        .placeholder = "PATH",
        .help =
            "large backgrounds on which pictures are small, for --sizes; folder, quoted glob or "
            "@list.txt",
        .completes_files = true}});
}

std::vector<Option> mixing_options() {
  return in_group(
      "Augmentation",
      {
          number("mixup", "mix two pictures, their shares from Beta(X, X); 0: never", "0"),
          number("cutmix",
                 "paste a part of one picture into another, its area from Beta(X, X); 0: never",
                 "0"),
          share("mixup-prob", "share of the batches that --mixup and --cutmix change", "1"),
          share("mixup-switch-prob", "probability of cutmix where mixup is on, too", "0.5"),
      });
}

std::vector<Option> average_options() {
  return in_group(
      "Optimizer",
      {
          {.name = "model-ema",
           .kind = ValueKind::flag,
           .help = "keep a moving average of the weights, judge it and save it"},
          share("model-ema-decay", "decay of the moving average of --model-ema", "0.9998"),
          {.name = "model-ema-warmup",
           .kind = ValueKind::flag,
           .help = "let the moving average of --model-ema decay faster in the first steps"},
      });
}

std::vector<Option> training_run_options() {
  return in_group(
      "Run",
      {
          {.name = "resume",
           .placeholder = "auto|FILE",
           .help = "go on with an earlier run; auto: from the newest state of the output, if there "
                   "is one; or from the state in FILE",
           .completes_files = true},
          integer("checkpoint-hist", "how many states are kept besides the best weights", "1", 1),
          integer("recovery-interval",
                  "steps between states that are written besides those of evaluations; 0: none",
                  "0"),
          integer("log-interval", "steps between two records of the log", "20", 1),
          {.name = "max-minutes",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "stop in good order after X minutes; --resume auto goes on; 0: no limit",
           .default_note = "no limit",
           .minimum = 0},
          {.name = "cache-mb",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "memory for decoded pictures in MiB; 0 decodes every time",
           .default_value = "512",
           .minimum = 0,
           .maximum = 1 << 24},
          {.name = "amp-dtype",
           .help = "number format of matrix products (automatic mixed precision)",
           .default_value = "auto",
           .choices = {"auto", "float32", "bfloat16"},
           .synonyms = {{"fp32", "float32"}, {"bf16", "bfloat16"}},
           .aliases = {{"amp", "bfloat16"}}},
      });
}

std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes) {
  std::vector<Option> options = without(
      runtime_options(), {"precision", "calibration", "keep-tokens", "keep-layer", "kernels"});
  const auto batch = std::ranges::find(options, "batch-size", &Option::name);
  batch->help = "pictures per batch and process";
  batch->default_note = "";
  batch->default_value = batch_size;
  options.push_back(
      {.name = "processes",
       .kind = ValueKind::integer,
       .placeholder = "N",
       .help = "processes on this machine; the program starts them itself, as torchrun would",
       .default_note = processes,
       .minimum = 1,
       .maximum = 1024,
       .group = "Runtime"});
  return options;
}

std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) {
    const auto option = std::ranges::find(options, name, &Option::name);
    if (option == options.end()) throw Error(ErrorCode::internal, "no such option", name);
    option->default_value = value;
  }
  return options;
}

std::vector<Option> training_input_options() {
  std::vector<Option> options = input_options();
  std::erase_if(options, [](const Option& option) {
    return option.name != "max-pixels" && option.name != "on-error";
  });
  return options;
}

}  // namespace hydrascope::app
