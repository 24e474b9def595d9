// The table of `hydrascope models`.
#include "app/command.h"
#include "app/options/option_builders.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

Option seed() {
  std::vector<Option> options = runtime_options();
  Option option = named(options, "seed");
  option.help = "start of the random weights of `create`";
  option.group = "Create";
  return option;
}

std::vector<std::string> subcommands_of(const Option& option) {
  if (option.name == "model") return {"info", "create", "path", "download"};
  for (const char* name :
       {"num-classes", "attn", "attn-opt", "rel-pos", "rel-pos-opt", "pos-embed", "img-size"})
    if (option.name == name) return {"info", "create"};
  if (option.name == "format") return {"list", "info"};
  if (option.group == "Model" || option.group == "Preprocessing") return {"info"};
  if (option.group == "Create") return {"create"};
  if (option.name == "hub") return {"download"};
  return {};
}

}  // namespace

CommandSpec models_spec() {
  CommandSpec spec;
  spec.name = "models";
  spec.summary = "list models and attention mechanisms; describe, create or fetch one";
  spec.group = "Make and inspect models";
  spec.subcommands = {
      {"list", "bundled models, architectures, attention mechanisms and position rules"},
      {"info", "what a model, an attention mechanism or a position rule is",
       "[MODEL|MECHANISM|RULE]"},
      {"create", "a checkpoint with random weights", "[ARCHITECTURE]"},
      {"path", "where the file of a model lies, bundled or in the Hugging Face cache", "[MODEL]"},
      {"download", "fetch a model from Hugging Face's hub into its cache",
       "ORGANISATION/NAME[@REVISION]"}};
  // `info` shows the transform, which all of them change.
  spec.options =
      join({hide(model_options(), {"pos-interp", "overview"}),
            hide(preprocessing_options(), {"input-size", "crop-pct", "crop-mode", "interpolation",
                                           "mean", "std", "exif", "print-transform"}),
            in_group("Create", {save_dtype("float32")}),
            {seed(), text("hub", "address of another hub", takes("URL"),
                          otherwise("HF_ENDPOINT, or Hugging Face's"), in("Download"))},
            output_options(),
            general_options()});
  for (Option& option : spec.options) option.subcommands = subcommands_of(option);
  spec.common = {"model", "attn", "img-size", "hub", "output", "format"};
  spec.examples = {
      "hydrascope models list",
      "hydrascope models info deit_base_patch16_224",
      "hydrascope models info hedgehog",
      "hydrascope models download timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k",
      "hydrascope models create --arch deit_base_patch16_224 --seed 0 -o base.safetensors",
  };
  return spec;
}

}  // namespace hydrascope::app
