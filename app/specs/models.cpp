// The table of `hydrascope models`.
#include "app/options/option_builders.h"
#include "app/specs/specs.h"

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
  if (option.name == "model") return {"info", "create", "path"};
  if (option.name == "num-classes") return {"create"};
  for (const char* name : {"attn", "attn-opt", "rel-pos", "rel-pos-opt", "pos-embed", "img-size"})
    if (option.name == name) return {"info", "create"};
  if (option.name == "format") return {"list", "info"};
  if (option.group == "Model" || option.group == "Preprocessing") return {"info"};
  if (option.group == "Create") return {"create"};
  return {};
}

}  // namespace

CommandSpec models_spec() {
  CommandSpec spec;
  spec.name = "models";
  spec.summary = "list models and attention mechanisms; describe or create one";
  spec.group = "Make and inspect models";
  spec.subcommands = {
      {"list", "bundled models, architectures, attention mechanisms and position rules"},
      {"info", "description of a model, an attention mechanism or a position rule",
       "[MODEL|MECHANISM|RULE]"},
      {"create", "a checkpoint with random weights", "[ARCHITECTURE]"},
      {"path", "path of a model's file, bundled or in the Hugging Face cache", "[MODEL]"}};
  // `info` shows the transform, which all of them change.
  spec.options = join({hide(model_options(), {"pos-interp", "overview"}),
                       without(new_head_options(), {"reset-head"}),
                       hide(preprocessing_options(), {"crop-pct", "crop-mode", "interpolation",
                                                      "mean", "std", "exif", "print-transform"}),
                       in_group("Create", Role::place, {stored_dtype("float32")}),
                       {seed()},
                       output_options(),
                       general_options()});
  for (Option& option : spec.options) option.subcommands = subcommands_of(option);
  spec.common = {"model", "attn", "img-size", "output", "format"};
  spec.examples = {
      "hydrascope models list",
      "hydrascope models info deit_base_patch16_224",
      "hydrascope models info hedgehog",
      "hydrascope models create --arch deit_base_patch16_224 --seed 0 -o base.safetensors",
  };
  return spec;
}

}  // namespace hydrascope::app
