// The options that several commands share, spelled as the contract of the command line has them.
#include "app/options/mechanism_listing.h"
#include "app/options/option_builders.h"
#include "app/options/options.h"
#include "app/results/format.h"

#include <utility>

namespace hydrascope::app {
std::vector<Option> model_options() {
  return in_group(
      "Model",
      {
          text("model",
               "name, file or folder of the model; `hydrascope models list` lists names, and "
               "hf-hub:org/name[@revision] is looked up in the local Hugging Face cache",
               letter('m'), takes("MODEL"), otherwise("the bundled checkpoint"), also({{"arch"}}),
               completes_files),
          text("checkpoint", "weights of a --model that is named by its architecture",
               takes("FILE"), completes_files),
          flag("use-ema", "take the moving average of the weights that the checkpoint holds"),
          text("attn",
               "attention by layer, as hydra:last4; softmax:0-9,hydra:10-11 counts layers from 0, "
               "hydra:every2 is every second one, hydra alone all; `hydrascope models list` lists "
               "mechanisms",
               takes("SPEC"), otherwise("the checkpoint's"), suggests(mechanism_names())),
          text("attn-opt",
               "setting of an attention mechanism; `hydrascope models info MECHANISM` lists them",
               takes("MECHANISM[:LAYERS].KEY=VALUE"), repeatable, suggests(mechanism_settings())),
          text("rel-pos",
               "position rule of softmax's scores by layer, as rope or alibi:last4; `hydrascope "
               "models list` lists rules",
               takes("SPEC"), otherwise("the checkpoint's"), suggests(position_names())),
          text("rel-pos-opt",
               "setting of a position rule, of all its layers or of some: alibi:0-5.strength=2; "
               "`hydrascope models info RULE` lists them",
               takes("RULE[:LAYERS].KEY=VALUE"), repeatable, suggests(position_settings())),
          text(
              "pos-embed",
              "what is added to the patches for their places; layers: a learned table at the input "
              "of every block; sincos: sines and cosines of row and column, for any size",
              otherwise("the checkpoint's, learned"),
              one_of({"learned", "layers", "sincos", "none"})),
          text("pos-interp",
               "position embedding at another size than the model's; timm: bicubic antialiased, "
               "hf: bicubic plain, tile: the trained one again and again, for windows",
               otherwise("the checkpoint's, timm"), one_of({"timm", "hf", "tile"})),
          text("overview", "a picture above the model's size comes a second time, reduced to it",
               otherwise("the checkpoint's, off"), one_of({"on", "off"})),
      });
}

std::vector<Option> new_head_options() {
  return in_group(
      "Model", {integer("num-classes",
                        "number of classes; a classifier of another size is replaced by a new one",
                        otherwise("the checkpoint's"), at_least(1)),
                flag("reset-head", "replace the classifier by a new one, with random weights")});
}

std::vector<Option> input_options() {
  return in_group(
      "Input", {
                   flag("recursive", "look into the folders inside a folder, too"),
                   text("on-error", "go on after an input that failed (exit code 3), or stop there",
                        by_default("skip"), one_of({"skip", "fail"}), also({{"strict", "fail"}})),
                   integer("max-pixels", "refuse pictures of more pixels before decoding",
                           by_default("536870912"), at_least(1)),
                   integer("max-bytes", "refuse files of more bytes before reading them",
                           by_default("2147483647"), at_least(1), at_most(2147483647)),
               });
}

std::vector<Option> preprocessing_options() {
  return in_group(
      "Preprocessing",
      {
          text("img-size", "size that the model sees, height x width", takes("N|HxW"),
               otherwise("the model's"), also({{"imgsz"}})),
          text("fit", "what happens to a size that the patch does not divide", by_default("pad"),
               one_of({"pad", "crop", "resize"})),
          number("crop-pct", "side of the crop over the resized picture's",
                 otherwise("the model's"), at_least(0.01)),
          text("crop-mode", "how pictures become square: cropped, squashed or bordered",
               otherwise("the model's"), one_of({"center", "squash", "border"})),
          text("interpolation", "filter that resizes pictures", otherwise("the model's"),
               one_of({"bicubic", "bilinear", "nearest"})),
          number("mean", "mean of the colour channels, of pixels in 0..1", takes("R G B"),
                 otherwise("the model's"), values(3)),
          number("std", "deviation of colour channels, of pixels in 0..1", takes("R G B"),
                 otherwise("the model's"), values(3)),
          text("exif",
               "whether the orientation noted in a picture's file is applied; auto applies it to "
               "classify and to draw, not to learn and to score, as timm",
               by_default("auto"), one_of({"auto", "apply", "ignore"})),
          flag("print-transform", "say how pictures are preprocessed; without inputs that is all"),
          flag("native", "no resize: each picture at its own size, fitted to the patches"),
      });
}

std::vector<Option> views_options() {
  return in_group(
      "Preprocessing",
      {text("views",
            "what of a picture is classified; whole: resized and cropped, native: as --native, "
            "tiles: overlapping tiles of the model's size, each class by its most "
            "probable one, pyramid: the whole, and tiles at the picture's size and halves of it, "
            "look: the picture at 1088 pixels (--img-size) along its shorter edge, then closer "
            "where the map of that pass says",
            by_default("whole"), one_of({"whole", "native", "tiles", "pyramid", "look"})),
       text("look-model", "model that looks closer, with --views look", takes("MODEL"),
            otherwise("softmax beside a bundled model, else the same"))});
}

std::vector<Option> runtime_options() {
  return in_group(
      "Runtime",
      {
          integer("batch-size", "pictures per forward pass", letter('b'),
                  otherwise("chosen by size"), at_least(1)),
          integer("workers", "threads that decode and transform pictures", letter('j'),
                  otherwise("processors"), at_least(1), at_most(1024)),
          integer("threads", "threads that compute the model", otherwise("processors"), at_least(1),
                  at_most(1024)),
          text("device",
               "auto, cpu, cuda or cuda:N; a device that is named is used or the run fails",
               letter('d'), takes("DEVICE"), by_default("auto")),
          text("precision",
               "number format of the computation; auto: the faster of float32 and bfloat16, "
               "measured on this processor, and on a GPU bfloat16",
               takes("FORMAT"), by_default("auto"),
               one_of({"auto", "float32", "tf32", "float16", "bfloat16", "int8"}),
               synonyms({{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}),
               also({{"fp16", "float16"}, {"bf16", "bfloat16"}})),
          text("calibration", "pictures that int8 is calibrated on",
               takes("FOLDER|FILE|@LIST|none"), otherwise("the bundled photographs"),
               completes_files),
          text("kernels", "compute with fused kernels, or with the readable reference",
               by_default("auto"), one_of({"auto", "fused", "reference"})),
          integer("seed", "seed of the random numbers", by_default("42"), at_least(0)),
          flag("deterministic", "the same bits in every run, at the cost of speed"),
      });
}

std::vector<Option> precision_check_options() {
  return in_group(
      "Runtime", {integer("check-precision",
                          "compare the first N pictures with float32; the end says how they differ",
                          at_least(1))});
}

std::vector<Option> launch_options() {
  return in_group("Runtime",
                  {number("ddp-timeout",
                          "how long a process waits for the others, of those that torchrun starts",
                          takes("SECONDS"), by_default("600"), at_least(0.1), at_most(1e6))});
}

std::vector<Option> output_options() {
  return in_group(
      "Output",
      {
          text("output", "file that results are written to", letter('o'), takes("FILE|-"),
               otherwise("standard output"), written),
          text("format", "form of output; where it is not given, the extension of --output decides",
               takes("FORMAT"), otherwise("text"), one_of(report_formats())),
      });
}

std::vector<Option> record_output_options() {
  std::vector<Option> options = output_options();
  named(options, "format").choices = record_formats();
  return options;
}

std::vector<Option> label_options() {
  return in_group(
      "Labels",
      {
          text("labels", "file with the names of the classes; one per line, or synset and names",
               takes("FILE"), otherwise("the model's"), also({{"class-map"}}), completes_files),
          text("label-type", "name of a class in text output: in words, its id or its index",
               by_default("name"), one_of({"name", "id", "index"})),
      });
}

std::vector<Option> general_options() {
  return as_in(
      "help",
      in_group(
          "General",
          {
              text("config", "read options from a JSON file; flags win", letter('c'),
                   takes("FILE.json"), completes_files),
              flag("dump-config", "print the resolved options as JSON, for --config, and stop"),
              flag("verbose", "say more, on standard error", letter('v')),
              flag("quiet", "say nothing but errors, on standard error", letter('q')),
              flag("no-progress", "show no progress bar"),
              text("color", "colours in text output; NO_COLOR is honoured", by_default("auto"),
                   one_of({"auto", "always", "never"})),
              flag("usage", "print the common options and examples, and stop", letter('h')),
              flag("help", "print every option, and stop"),
          }));
}

}  // namespace hydrascope::app
