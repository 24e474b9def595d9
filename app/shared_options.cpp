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
           .placeholder = "MODEL",
           .help = "name, file or folder of the model; `hydrascope models list` lists names, and "
                   "hf-hub:org/name[@revision] is looked up in the local Hugging Face cache",
           .default_note = "the bundled checkpoint",
           .aliases = {{"arch"}},
           .completes_files = true},
          {.name = "checkpoint",
           .placeholder = "FILE",
           .help = "weights of a --model that is named by its architecture",
           .aliases = {{"weights"}, {"initial-checkpoint"}, {"pretrained-path"}},
           .completes_files = true},
          flag("use-ema", "take the moving average of the weights that the checkpoint holds"),
          {.name = "num-classes",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "number of classes; a classifier of another size is replaced by a new one",
           .default_note = "the checkpoint's",
           .minimum = 1},
          flag("reset-head", "replace the classifier by a new one, with random weights"),
          {.name = "attn",
           .placeholder = "SPEC",
           .help = "attention by layer, as hydra:last4; softmax:0-9,hydra:10-11 counts layers from "
                   "0, hydra:every2 is every second one, hydra alone all; mechanisms: " +
                   join_words(mechanism_names(), ", ", ", "),
           .default_note = "the checkpoint's",
           .suggestions = mechanism_names()},
          {.name = "attn-opt",
           .placeholder = "MECHANISM.KEY=VALUE",
           .help = "setting of an attention mechanism; `hydrascope models info MECHANISM` lists "
                   "them",
           .repeatable = true,
           .suggestions = mechanism_settings()},
          {.name = "pos-interp",
           .help = "position embedding at another size than the model's; timm: bicubic "
                   "antialiased, hf: bicubic plain, tile: the trained one again and again, for "
                   "windows",
           .default_note = "the checkpoint's, timm",
           .choices = {"timm", "hf", "tile"}},
          {.name = "overview",
           .help = "a picture above the model's size comes a second time, reduced to it",
           .default_note = "the checkpoint's, off",
           .choices = {"on", "off"}},
      });
}

std::vector<Option> input_options() {
  return in_group(
      "Input", {
                   {.name = "input",
                    .short_name = 'i',
                    .placeholder = "PATH",
                    .help = "picture, video, folder, quoted glob or @list.txt, as an argument; - "
                            "reads paths from standard input",
                    .aliases = {{"source"}, {"data-dir"}},
                    .repeatable = true,
                    .completes_files = true},
                   flag("recursive", "look into the folders inside a folder, too"),
                   {.name = "on-error",
                    .help = "go on after an input that failed (exit code 3), or stop there",
                    .default_value = "skip",
                    .choices = {"skip", "fail"},
                    .aliases = {{"strict", "fail"}}},
                   {.name = "max-pixels",
                    .kind = ValueKind::integer,
                    .placeholder = "N",
                    .help = "refuse pictures of more pixels than that before decoding them",
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
           .help = "size that the model sees, height x width",
           .default_note = "the model's",
           .aliases = {{"imgsz"}}},
          {.name = "input-size",
           .kind = ValueKind::integer,
           .placeholder = "C H W",
           .help = "channels, height and width that the model sees, as timm spells --img-size",
           .values = 3,
           .minimum = 1},
          {.name = "fit",
           .help = "what happens to a size that the patch does not divide",
           .default_value = "pad",
           .choices = {"pad", "crop", "resize"}},
          {.name = "crop-pct",
           .kind = ValueKind::number,
           .placeholder = "X",
           .help = "side of the crop over the side of the resized picture",
           .default_note = "the model's",
           .aliases = {{"eval-crop-ratio"}},
           .minimum = 0.01},
          {.name = "crop-mode",
           .help = "how pictures become square: cropped, squashed or bordered",
           .default_note = "the model's",
           .choices = {"center", "squash", "border"}},
          {.name = "interpolation",
           .help = "filter that resizes pictures",
           .default_note = "the model's",
           .choices = {"bicubic", "bilinear", "nearest"}},
          {.name = "mean",
           .kind = ValueKind::number,
           .placeholder = "R G B",
           .help = "mean of the colour channels, of pixels in 0..1",
           .default_note = "the model's",
           .values = 3},
          {.name = "std",
           .kind = ValueKind::number,
           .placeholder = "R G B",
           .help = "standard deviation of the colour channels, of pixels in 0..1",
           .default_note = "the model's",
           .values = 3},
          {.name = "exif",
           .help =
               "whether the orientation noted in a picture's file is applied; auto applies it to "
               "classify and to draw, not to learn and to score, as timm",
           .default_value = "auto",
           .choices = {"auto", "apply", "ignore"}},
          flag("print-transform", "say how pictures are preprocessed; without inputs that is all"),
          flag("native", "no resize: each picture at its own size, fitted to the patches"),
      });
}

std::vector<Option> views_options() {
  return in_group(
      "Preprocessing",
      {{.name = "views",
        .help = "what of a picture is classified; whole: resized and cropped, native: as --native, "
                "tiles: overlapping tiles of the size that the model sees, each class by its most "
                "probable one, pyramid: the whole, and tiles at the picture's size and halves of "
                "it",
        .default_value = "whole",
        .choices = {"whole", "native", "tiles", "pyramid"}}});
}

std::vector<Option> runtime_options() {
  return in_group(
      "Runtime",
      {
          {.name = "batch-size",
           .short_name = 'b',
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "pictures per forward pass",
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
           .help = "threads that compute the model",
           .default_note = "processors",
           .minimum = 1},
          {.name = "device",
           .short_name = 'd',
           .placeholder = "DEVICE",
           .help = "auto, cpu, cuda or cuda:N; a device that is named is used or the run fails",
           .default_value = "auto"},
          {.name = "precision",
           .placeholder = "FORMAT",
           .help = "number format of the computation; auto: the faster of float32 and bfloat16, "
                   "measured on this processor, and on a GPU bfloat16",
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
           .help = "keep this share of the patch tokens; those stay that give most to the class "
                   "token, which is faster and not quite the same answer",
           .default_note = "all",
           .maximum = 1},
          {.name = "keep-layer",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "layer after whose attention --keep-tokens drops the others, from 0",
           .default_note = "a quarter of the way",
           .minimum = 0},
          {.name = "kernels",
           .help = "compute with fused kernels, or with the readable reference",
           .default_value = "auto",
           .choices = {"auto", "fused", "reference"}},
          {.name = "seed",
           .kind = ValueKind::integer,
           .placeholder = "N",
           .help = "seed of the random numbers",
           .default_value = "42",
           .minimum = 0},
          flag("deterministic", "the same bits in every run, at the cost of speed"),
      });
}

std::vector<Option> launch_options() {
  return in_group(
      "Runtime", {{.name = "ddp-timeout",
                   .kind = ValueKind::number,
                   .placeholder = "SECONDS",
                   .help = "how long a process waits for the others, of those that torchrun starts",
                   .default_value = "600",
                   .minimum = 0.1,
                   .maximum = 1e6}});
}

std::vector<Option> output_options() {
  return in_group("Output",
                  {
                      {.name = "output",
                       .short_name = 'o',
                       .placeholder = "FILE|-",
                       .help = "file that results are written to",
                       .default_note = "standard output",
                       .aliases = {{"results-file"}},
                       .completes_files = true},
                      {.name = "format",
                       .placeholder = "FORMAT",
                       .help = "form of the results; where it is not given, the extension of "
                               "--output decides",
                       .default_note = "text",
                       .choices = {"text", "json", "jsonl", "csv", "tsv"},
                       .aliases = {{"results-format"}}},
                  });
}

std::vector<Option> label_options() {
  return in_group(
      "Labels",
      {
          {.name = "labels",
           .placeholder = "FILE",
           .help = "file with the names of the classes; one per line, or synset and names",
           .default_note = "the model's",
           .aliases = {{"class-map"}},
           .completes_files = true},
          {.name = "label-type",
           .help = "name of a class in text output: in words, its id or its index",
           .default_value = "name",
           .choices = {"name", "id", "index"}},
      });
}

std::vector<Option> general_options() {
  return in_group(
      "General",
      {
          {.name = "config",
           .short_name = 'c',
           .placeholder = "FILE.json",
           .help = "read options from a JSON file; flags win",
           .completes_files = true},
          flag("dump-config", "print the resolved options as JSON, for --config, and stop"),
          flag("verbose", "say more, on standard error", 'v'),
          flag("quiet", "say nothing but errors, on standard error", 'q'),
          flag("no-progress", "show no progress bar"),
          {.name = "color",
           .help = "colours in text output; NO_COLOR is honoured",
           .default_value = "auto",
           .choices = {"auto", "always", "never"}},
          flag("usage", "print the common options and examples, and stop", 'h'),
          flag("help", "print every option, and stop"),
      });
}

}  // namespace hydrascope::app
