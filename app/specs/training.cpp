#include "app/specs/training.h"

#include "app/options/option_builders.h"

#include <utility>

namespace hydrascope::app {
namespace {

Option pair_of_numbers(std::string name, std::string placeholder, std::string help,
                       std::string default_value) {
  return number(std::move(name), std::move(help), takes(std::move(placeholder)),
                by_default(std::move(default_value)), values(2), at_least(0));
}

}  // namespace

std::vector<Option> optimizer_options() {
  return in_group(
      "Optimizer",
      {
          text("opt", "optimizer", by_default("adamw"), one_of({"adamw", "sgd"})),
          number("weight-decay",
                 "decay of the weights, but not of norms, biases, tokens and positions", "0.05"),
          number("momentum", "momentum of SGD", "0.9"),
          pair_of_numbers("opt-betas", "B1 B2", "betas of AdamW", "0.9,0.999"),
          number("opt-eps", "epsilon of AdamW", "1e-8"),
          number("layer-decay", "learning rate of a layer, relative to that of the next layer",
                 by_default("1"), at_least(0.01), at_most(1)),
          number("clip-grad", "clip gradients to this joint norm; 0: never", takes("NORM"),
                 by_default("0"), at_least(0)),
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
          text("aa", "RandAugment, as rand-m9-n2-mstd0.5-inc1, or none", takes("POLICY"),
               by_default("none")),
          share("reprob", "probability of random erasing", "0"),
          text("remode", "what random erasing fills in: noise (pixel) or zeros (const)",
               by_default("pixel"), one_of({"pixel", "const"})),
          integer("recount", "rectangles that random erasing takes from a picture", "1", 1),
          text("train-interpolation", "filter of the random crop", by_default("random"),
               one_of({"random", "bilinear", "bicubic"})),
          integer("aug-repeats", "repetitions of a picture in an epoch, one right after the other",
                  "0"),
      });
}

std::vector<Option> resolution_options() {
  return in_group("Resolution", {text("sizes",
                                      "picture sizes to learn, each with about the same share of "
                                      "the computation; the teacher sees --img-size",
                                      takes("N|HxW,..."), comma_list),
                                 text("scenes",
                                      "large backgrounds on which pictures are small, for --sizes; "
                                      "folder, quoted glob or @list.txt",
                                      takes("PATH"), completes_files),
                                 share("mosaics",
                                       "share of the batches of large --sizes whose pictures are "
                                       "mosaics of four",
                                       "0")});
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
          flag("model-ema", "keep a moving average of the weights, judge it and save it"),
          share("model-ema-decay", "decay of the moving average of --model-ema", "0.9998"),
          flag("model-ema-warmup",
               "let the moving average of --model-ema decay faster in the first steps"),
      });
}

std::vector<Option> training_run_options() {
  return in_group(
      "Run",
      {
          text("resume",
               "go on with an earlier run; auto: from the newest state of the output, if there is "
               "one; or from the state in FILE",
               takes("auto|FILE"), completes_files),
          integer("checkpoint-hist", "how many states are kept besides the best weights", "1", 1),
          integer("recovery-interval",
                  "steps between states that are written besides those of evaluations; 0: none",
                  "0"),
          integer("log-interval", "steps between two records of the log", "20", 1),
          number("max-minutes",
                 "stop in good order after X minutes; --resume auto goes on; 0: no limit",
                 otherwise("no limit"), at_least(0)),
          integer("cache-mb", "memory for decoded pictures in MiB; 0 decodes every time",
                  by_default("512"), at_least(0), at_most(1 << 24)),
          text("amp-dtype", "number format of matrix products (automatic mixed precision)",
               by_default("auto"), one_of({"auto", "float32", "bfloat16"}),
               synonyms({{"fp32", "float32"}, {"bf16", "bfloat16"}}), also({{"amp", "bfloat16"}})),
      });
}

std::vector<Option> training_runtime_options(const std::string& batch_size,
                                             const std::string& processes) {
  std::vector<Option> options = without(runtime_options(), {"precision", "calibration", "kernels"});
  Option& batch = named(options, "batch-size");
  batch.help = "pictures per batch and process";
  batch.default_note = "";
  batch.default_value = batch_size;
  options.push_back(integer(
      "processes", "processes on this machine; the program starts them itself, as torchrun would",
      otherwise(processes), at_least(1), at_most(1024), in("Runtime")));
  return options;
}

std::vector<Option> with_defaults(std::vector<Option> options,
                                  const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) named(options, name).default_value = value;
  return options;
}

std::vector<Option> training_input_options() {
  return without(input_options(),
                 {"input", "recursive", "max-bytes", "isolate-decoding", "decode-timeout"});
}

}  // namespace hydrascope::app
