// The options that several commands share, spelled as the contract of the command line has them.
#include "app/mechanism_listing.h"
#include "app/option_builders.h"
#include "app/option_table.h"
#include "app/options.h"

#include <utility>

namespace hydrascope::app {
std::vector<Option> model_options() {
  return in_group(
      "Model",
      {
          {.name = "model",
           .short_name = 'm',
           .placeholder = "NAME|FILE|FOLDER|hf-hub:org/name[@rev]",
           .help = "which model",
           .default_note = "the bundled checkpoint",
           .aliases = {{"arch"}},
           .completes_files = true},
          {.name = "checkpoint",
           .placeholder = "FILE",
           .help = "weights for a model that is named by its architecture",
           .aliases = {{"weights"}, {"initial-checkpoint"}, {"pretrained-path"}},
           .completes_files = true},
          flag("use-ema", "take the moving average of the weights that the checkpoint holds"),
          {.name = "num-classes",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "classes of the model; a classifier of another size is replaced by a new one",
           .default_note = "the checkpoint's",
           .minimum = 1},
          flag("reset-head", "replace the classifier by a new one, with random weights"),
          {.name = "attn",
           .placeholder = "SPEC",
           .help = "attention by layer, from 0: hydra, softmax:0-9,hydra:10-11, hydra:last4 or "
                   "hydra:every2; mechanisms: " +
                   join_words(mechanism_names(), ", ", ", "),
           .default_note = "what the checkpoint says",
           .suggestions = mechanism_names()},
          {.name = "attn-opt",
           .placeholder = "MECHANISM.KEY=VALUE",
           .help = "setting of an attention mechanism; `hydrascope models info MECHANISM` lists "
                   "its keys",
           .repeatable = true,
           .suggestions = mechanism_settings()},
          {.name = "pos-interp",
           .help = "position embedding at another size: bicubic antialiased or bicubic plain",
           .default_value = "timm",
           .choices = {"timm", "hf"}},
      });
}

std::vector<Option> input_options() {
  return in_group(
      "Input", {
                   {.name = "input",
                    .short_name = 'i',
                    .placeholder = "PATH",
                    .help = "as the arguments: file, folder, quoted glob, @list.txt, - for paths "
                            "on standard input, video",
                    .aliases = {{"source"}, {"data-dir"}},
                    .repeatable = true,
                    .completes_files = true},
                   flag("recursive", "look into the folders of folders"),
                   {.name = "on-error",
                    .help = "go on after an input that failed (exit code 3) or stop",
                    .default_value = "skip",
                    .choices = {"skip", "fail"},
                    .aliases = {{"strict", "fail"}}},
                   {.name = "max-pixels",
                    .kind = ValueKind::integer,
                    .placeholder = "N",
                    .help = "refuse larger pictures before decoding them",
                    .default_value = "536870912",
                    .minimum = 1},
               });
}

std::vector<Option> preprocessing_options() {
  return in_group(
      "Preprocessing",
      {
          {.name = "img-size",
           .placeholder = "N|HxW",
           .help = "size fed to the model, height x width",
           .default_note = "the model's",
           .aliases = {{"imgsz"}}},
          {.name = "input-size",
           .kind = ValueKind::integer,
           .placeholder = "C H W",
           .help = "the same with the number of channels",
           .values = 3,
           .minimum = 1},
          {.name = "fit",
           .help = "what to do with sizes that the patch does not divide",
           .default_value = "pad",
           .choices = {"pad", "crop", "resize"}},
          {.name = "crop-pct",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "side of the crop over side of the resized picture",
           .default_note = "the model's",
           .aliases = {{"eval-crop-ratio"}},
           .minimum = 0.01},
          {.name = "crop-mode",
           .help = "how the crop is taken",
           .default_note = "the model's",
           .choices = {"center", "squash", "border"}},
          {.name = "interpolation",
           .help = "filter of the resize",
           .default_note = "the model's",
           .choices = {"bicubic", "bilinear", "nearest"}},
          {.name = "mean",
           .kind = ValueKind::number,
           .placeholder = "R G B",
           .help = "mean of the channels, pixels in 0..1",
           .default_note = "the model's",
           .values = 3},
          {.name = "std",
           .kind = ValueKind::number,
           .placeholder = "R G B",
           .help = "standard deviation of the channels",
           .default_note = "the model's",
           .values = 3},
          {.name = "exif",
           .help =
               "whether the orientation noted in the file is applied; auto applies it to classify "
               "and to draw, and leaves it to learn and to score, as timm does",
           .default_value = "auto",
           .choices = {"auto", "apply", "ignore"}},
          flag("print-transform",
               "say what is done to the pictures (beside records on standard error)"),
          flag("native", "no resize: the picture at its own size, fitted to the patch grid"),
      });
}

std::vector<Option> runtime_options() {
  return in_group(
      "Runtime",
      {
          {.name = "batch-size",
           .short_name = 'b',
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "images per forward pass",
           .default_note = "chosen by size",
           .minimum = 1},
          {.name = "workers",
           .short_name = 'j',
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "threads that decode and transform pictures",
           .default_note = "processors",
           .aliases = {{"num-workers"}},
           .minimum = 0},
          {.name = "threads",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "threads that compute",
           .default_note = "processors",
           .minimum = 1},
          {.name = "device",
           .short_name = 'd',
           .placeholder = "auto|cpu|cuda|cuda:N",
           .help = "where to compute; a device that is named is used or the run fails",
           .default_value = "auto"},
          {.name = "precision",
           .help = "number format of the computation",
           .default_value = "auto",
           .choices = {"auto", "float32", "tf32", "float16", "bfloat16", "int8"},
           .synonyms = {{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}},
           .aliases = {{"dtype"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}},
          {.name = "calibration",
           .placeholder = "FOLDER|FILE|@LIST|none",
           .help = "pictures that int8 is calibrated on",
           .default_note = "the bundled photographs",
           .completes_files = true},
          {.name = "keep-tokens",
           .kind = ValueKind::number,
           .placeholder = "FRACTION",
           .help = "drop the patch tokens that give least to the class token: faster, not "
                   "quite the same answer",
           .default_note = "all",
           .maximum = 1},
          {.name = "keep-layer",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "layer behind whose attention --keep-tokens drops them",
           .default_note = "a quarter of the way",
           .minimum = 0},
          {.name = "kernels",
           .help = "fused kernels or the readable reference",
           .default_value = "auto",
           .choices = {"auto", "fused", "reference"}},
          {.name = "seed",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "start of the random numbers",
           .default_value = "42",
           .minimum = 0},
          flag("deterministic", "the same bits in every run, at the cost of speed"),
      });
}

std::vector<Option> launch_options() {
  return in_group("Runtime", {{.name = "ddp-timeout",
                               .kind = ValueKind::number,
                               .placeholder = "SECONDS",
                               .help = "under torchrun, how long a process waits for the others",
                               .default_value = "600",
                               .minimum = 0.1,
                               .maximum = 1e6}});
}

std::vector<Option> output_options() {
  return in_group("Output", {
                                {.name = "output",
                                 .short_name = 'o',
                                 .placeholder = "FILE|FOLDER|-",
                                 .help = "where results go",
                                 .default_note = "standard output",
                                 .aliases = {{"results-file"}},
                                 .completes_files = true},
                                {.name = "format",
                                 .help = "form of the results",
                                 .default_note = "by the extension of --output, else text",
                                 .choices = {"text", "json", "jsonl", "csv", "tsv"},
                                 .aliases = {{"results-format"}}},
                            });
}

std::vector<Option> label_options() {
  return in_group("Labels", {
                                {.name = "labels",
                                 .placeholder = "FILE",
                                 .help = "names of the classes: one a line, or synset and names",
                                 .default_note = "the model's",
                                 .aliases = {{"class-map"}},
                                 .completes_files = true},
                                {.name = "label-type",
                                 .help = "what stands for a class in the text output",
                                 .default_value = "name",
                                 .choices = {"name", "id", "index"}},
                            });
}

std::vector<Option> general_options() {
  return in_group("General",
                  {
                      {.name = "config",
                       .short_name = 'c',
                       .placeholder = "FILE.json",
                       .help = "read options from a JSON object; flags win",
                       .completes_files = true},
                      flag("dump-config", "print the resolved options as such an object and stop"),
                      flag("verbose", "say more on standard error", 'v'),
                      flag("quiet", "say nothing but errors on standard error", 'q'),
                      flag("no-progress", "no progress bar"),
                      {.name = "color",
                       .help = "colours; NO_COLOR is honoured",
                       .default_value = "auto",
                       .choices = {"auto", "always", "never"}},
                      flag("help", "print this text and stop", 'h'),
                  });
}

}  // namespace hydrascope::app
