// The options that several commands share, spelled as the contract of the command line has them.
#include "app/options/option_builders.h"
#include "app/options/options.h"
#include "app/options/requests.h"
#include "app/results/format.h"

namespace hydrascope::app {
namespace {

std::int64_t parse_exit(const std::string& word) {
  return parse_layer(word, "layers", "`coarse_exits`", "`coarse_exits`=2,5");
}
bool is_fail(const std::string& word) { return word == "fail"; }
image::Size parse_img_size(const std::string& word) { return parse_size(word); }

}  // namespace

std::vector<Option> model_options() {
  return in_group(
      "Model", Role::model,
      {
          text("model",
               "name, file or folder of the model; `hydrascope models list` lists names, and "
               "hf-hub:org/name[@revision] is one in the local Hugging Face cache",
               into(&ModelRequest::word), letter('m'), takes("MODEL"),
               otherwise("the bundled checkpoint"), also({{.name = "arch", .is_rival = true}}),
               completes_files, role(Role::source)),
          text("checkpoint", "weights of a --model that is named by its architecture",
               into(&ModelRequest::checkpoint), takes("FILE"), completes_files, role(Role::source)),
          flag("use-ema", "take the checkpoint's moving average of the weights",
               into(&ModelRequest::use_ema), keyed("model.use-ema")),
          text("attn",
               "attention of each layer, as hydra:last4; hydra: all layers, hydra:every2, "
               "softmax:0-9,hydra:10-11 (from 0); `hydrascope models list` lists mechanisms",
               into(&ModelRequest::attention), takes("SPEC"), otherwise("the checkpoint's")),
          text("attn-opt",
               "setting of an attention mechanism; `hydrascope models info MECHANISM` lists "
               "settings",
               into(&ModelRequest::attention_options), takes("MECHANISM[:LAYERS].KEY=VALUE"),
               repeatable, keyed("model.attn-opt")),
          text("rel-pos",
               "position rule of each layer's softmax scores, as rope or alibi:last4; `hydrascope "
               "models list` lists rules",
               into(&ModelRequest::rel_pos), takes("SPEC"), otherwise("the checkpoint's"),
               keyed("model.rel-pos")),
          text("rel-pos-opt",
               "setting of a position rule, as alibi:0-5.strength=2; `hydrascope models info RULE` "
               "lists settings",
               into(&ModelRequest::rel_pos_options), takes("RULE[:LAYERS].KEY=VALUE"), repeatable,
               keyed("model.rel-pos-opt")),
          text("pos-embed",
               "table of positions that is added to the patches; layers: a learned table for every "
               "block; sincos: sines and cosines of row and column, for any size",
               into(&ModelRequest::pos_embed, model::find_word<model::PosEmbed>),
               otherwise("the checkpoint's, learned"),
               one_of({"learned", "layers", "sincos", "none"}), keyed("model.pos-embed")),
          text(
              "pos-interp",
              "resampling of position tables to another size; timm: as timm, hf: as Hugging Face's "
              "transformers, tile: repeated for every window",
              into(&ModelRequest::pos_interp, model::find_word<model::PosInterp>),
              otherwise("the checkpoint's, timm"), one_of({"timm", "hf", "tile"}),
              keyed("model.pos-interp")),
          text("overview",
               "show a picture above the model's size a second time, reduced to that size",
               into(&ModelRequest::overview, is_on), otherwise("the checkpoint's, off"),
               one_of({"on", "off"}), keyed("model.overview")),
          text("coarse-exits",
               "layers, from 0, behind which sure pictures leave with patches averaged 2x2",
               into(&ModelRequest::coarse_exits, parse_exit), takes("LAYER,..."),
               otherwise("the checkpoint's"), comma_list, keyed("model.coarse-exits")),
          text("exit-rule", "score of early exits",
               into(&ModelRequest::exit_rule, model::find_word<model::ExitRule>),
               otherwise("the model's"), one_of({"margin", "entropy", "saturation", "learned"}),
               keyed("model.exit-rule")),
          number("exit-threshold", "leave early above this score; 1: never",
                 into(&ModelRequest::exit_threshold), takes("T"), otherwise("the model's"),
                 at_least(-1), at_most(1), keyed("model.exit-threshold")),
      });
}

std::vector<Option> class_vector_options() {
  return in_group(
      "Model", Role::source,
      {text("classes",
            "file of class vectors in the place of the classifier; their probabilities are a "
            "softmax, SigLIP's too (docs/embed.md)",
            into(&ModelRequest::classes), takes("FILE"), reads),
       integer("depth-steps", "passes through shared blocks", into(&ModelRequest::depth_steps),
               takes("N"), otherwise("the model's"), at_least(1), at_most(1024), role(Role::model),
               keyed("model.depth-steps"))});
}

std::vector<Option> vote_options() {
  return in_group(
      "Labels", Role::task,
      {text("knn", "answer by the nearest labelled pictures of a store of `embed`",
            into(&VoteRequest::store), takes("STORE"), reads, role(Role::source)),
       integer("knn-k", "number of pictures that vote", into(&VoteRequest::k), takes("K"),
               by_default("20"), at_least(1), keyed("run.knn-k")),
       number("knn-mix", "share of --knn beside the classifier's answer", into(&VoteRequest::share),
              takes("SHARE"), otherwise("all"), at_least(0), at_most(1), keyed("run.knn-mix"))});
}

std::vector<Option> new_head_options() {
  return in_group(
      "Model", Role::model,
      {integer("num-classes",
               "number of classes; a classifier of another size is replaced by a new one",
               into(&ModelRequest::num_classes), otherwise("the checkpoint's"), at_least(1)),
       flag("reset-head", "replace the classifier by a new one, with random weights",
            into(&ModelRequest::reset_head))});
}

std::vector<Option> input_options() {
  return in_group("Input", Role::task,
                  {
                      flag("recursive", "search the folders inside a folder too",
                           into(&PicturesRequest::recursive)),
                      text("on-error", "go on after a failed input (exit code 3), or stop",
                           into(&RunRequest::fail_fast, is_fail), by_default("skip"),
                           one_of({"skip", "fail"}), role(Role::console), keyed("run.on-error")),
                      integer("max-pixels", "most pixels of a picture; more are refused",
                              into(&image::DecodeOptions::max_pixels), by_default("536870912"),
                              at_least(1), keyed("run.max-pixels")),
                      integer("max-bytes", "most bytes of a file; more are refused",
                              into(&image::DecodeOptions::max_bytes), by_default("2147483647"),
                              at_least(1), at_most(2147483647), keyed("run.max-bytes")),
                  });
}

std::vector<Option> preprocessing_options() {
  return in_group(
      "Preprocessing", Role::source,
      {
          text("img-size", "size of the model's input",
               into(&TransformRequest::img_size, parse_img_size), takes("N|HxW"),
               otherwise("the model's"), also({{"imgsz"}})),
          text("fit", "treatment of a size that the patch does not divide",
               into(&TransformRequest::fit, image::parse_fit), by_default("pad"),
               one_of({"pad", "crop", "resize"}), role(Role::model), keyed("transform.fit")),
          number("crop-pct", "side of the crop over the resized picture's",
                 into(&TransformRequest::crop_pct), otherwise("the model's"), at_least(0.01),
                 keyed("transform.crop-pct")),
          text("crop-mode", "way to a square: the centre, squashed, or with a border",
               into(&TransformRequest::crop_mode, image::parse_crop_mode), otherwise("the model's"),
               one_of({"center", "squash", "border", "center_floor"}),
               keyed("transform.crop-mode")),
          text("interpolation", "filter that resizes pictures",
               into(&TransformRequest::interpolation, image::parse_interpolation),
               otherwise("the model's"), one_of({"bicubic", "bilinear", "nearest"}),
               keyed("transform.interpolation")),
          number("mean", "mean of the colour channels, of pixels in 0..1",
                 into(&TransformRequest::mean), takes("R G B"), otherwise("the model's"), values(3),
                 keyed("transform.mean")),
          number("std", "deviation of colour channels, of pixels in 0..1",
                 into(&TransformRequest::std), takes("R G B"), otherwise("the model's"), values(3),
                 keyed("transform.std")),
          text(
              "exif",
              "orientation in a picture's file; auto: ignored to learn and score, as by timm, else "
              "applied",
              for_field(&image::DecodeOptions::apply_exif), by_default("auto"),
              one_of({"auto", "apply", "ignore"}), role(Role::model), keyed("transform.exif")),
      });
}

std::vector<Option> views_options() {
  return in_group(
      "Preprocessing", Role::task,
      {text("views",
            "view of a picture; whole: resized and cropped; native: at its own size, fitted to the "
            "patches; zoom: all of it and, where it is large, the parts that a pass of the bundled "
            "window model finds",
            into(&TransformRequest::views, image::parse_views),
            otherwise("zoom; whole beside a model, a size or a crop, and to evaluate"),
            one_of({"whole", "native", "zoom"}), also({{"native", "native"}}))});
}

std::vector<Option> one_view_options() {
  return in_group(
      "Preprocessing", Role::task,
      {text("views",
            "view of a picture; whole: resized and cropped; native: at its own size, fitted to the "
            "patches",
            into(&TransformRequest::views, image::parse_views), otherwise("whole"),
            one_of({"whole", "native"}), also({{"native", "native"}}))});
}

std::vector<Option> runtime_options() {
  return in_group(
      "Runtime", Role::speed,
      {
          integer("batch-size", "pictures per forward pass", for_field(&RunRequest::batch_size),
                  letter('b'), otherwise("chosen by size"), at_least(1), role(Role::step)),
          integer("workers", "threads that decode and transform pictures",
                  into(&RunRequest::workers), otherwise("processors"), at_least(1), at_most(1024),
                  keyed("run.workers")),
          integer("threads", "threads that compute the model", into(&RunRequest::threads),
                  otherwise("cores"), at_least(1), at_most(1024)),
          text("device", "auto, cpu, cuda or cuda:N; a named one has to be there",
               into(&RunRequest::device), letter('d'), takes("DEVICE"), by_default("auto")),
          text("precision",
               "number format of the computation; auto: on this processor the faster of float32 "
               "and bfloat16 by a measurement, on a GPU bfloat16",
               into(&RunRequest::precision), takes("FORMAT"), by_default("auto"),
               one_of({"auto", "float32", "tf32", "float16", "bfloat16", "int8"}),
               synonyms({{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}),
               also({{"fp16", "float16"}, {"bf16", "bfloat16"}}), role(Role::model)),
          text("calibration", "pictures for the calibration of int8",
               into(&RunRequest::calibration), takes("FOLDER|FILE|@LIST|none"),
               otherwise("the bundled photographs"), completes_files, role(Role::model),
               keyed("run.calibration")),
          text("kernels", "fused kernels or the readable reference",
               into(&RunRequest::kernels, parse_kernels), by_default("auto"),
               one_of({"auto", "fused", "reference"}), role(Role::model), keyed("run.kernels")),
          integer("seed", "seed of the random numbers", into(&RunRequest::seed), by_default("42"),
                  at_least(0), role(Role::model), keyed("run.seed")),
          flag("deterministic", "give the same bits in every run, at the cost of speed",
               into(&RunRequest::deterministic), keyed("run.deterministic")),
      });
}

std::vector<Option> memory_options(const std::string& group) {
  return in_group(group, Role::task,
                  {
                      text("memory", "memory of earlier frames in each layer, as state or xl:last2",
                           into(&RunRequest::memory), takes("SPEC")),
                      text("memory-opt", "setting of a memory, as state.lambda=0.5",
                           into(&RunRequest::memory_options), takes("MEMORY[:LAYERS].KEY=VALUE"),
                           repeatable, keyed("run.memory-opt")),
                  });
}

std::vector<Option> output_options(std::vector<std::string> formats) {
  return in_group(
      "Output", Role::place,
      {
          text("output", "file of the results", into(&OutputRequest::file), letter('o'),
               takes("FILE|-"), otherwise("standard output"), written),
          text("format", "form of results; without it the extension of --output decides",
               for_field(&OutputRequest::format), takes("FORMAT"), otherwise("text"),
               one_of(formats.empty() ? report_formats() : formats)),
      });
}

std::vector<Option> label_options() {
  return in_group(
      "Labels", Role::source,
      {
          text("labels", "file of the names of the classes, one a line, or synset and names",
               into(&PicturesRequest::labels), takes("FILE"), otherwise("the model's"),
               also({{"class-map"}}), completes_files),
          text("label-type", "name of a class in text: words, id or index",
               into(&PicturesRequest::label_type, parse_label_type), by_default("name"),
               one_of({"name", "id", "index"}), role(Role::console), keyed("run.label-type")),
      });
}

std::vector<Option> help_options() {
  return in_group(kGeneral, Role::console,
                  {flag("usage", "print the common options and examples, and stop",
                        into(&GeneralRequest::usage), letter('h'), unseen),
                   flag("help", "print every option, and stop; -h: the common ones",
                        into(&GeneralRequest::help))});
}

std::vector<Option> general_options() {
  return join({in_group(kGeneral, Role::console,
                        {
                            text("config", "read options from a JSON file; flags win",
                                 into(&GeneralRequest::config), letter('c'), takes("FILE.json"),
                                 completes_files),
                            flag("dump-config",
                                 "print the resolved options as JSON, for --config, and stop",
                                 into(&GeneralRequest::dump_config)),
                            flag("verbose", "print more on standard error", into(&Console::verbose),
                                 letter('v')),
                            flag("quiet", "print errors alone on standard error",
                                 into(&Console::quiet), letter('q')),
                            flag("progress", "show the progress", into(&Console::progress),
                                 by_default("true"), keyed("run.progress")),
                            text("color", "colours in text output; NO_COLOR is honoured",
                                 for_field(&Console::color), by_default("auto"),
                                 one_of({"auto", "always", "never"}), keyed("run.color")),
                        }),
               help_options()});
}

}  // namespace hydrascope::app
