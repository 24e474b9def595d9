// The table of `hydrascope models`.
#include "app/options/option_builders.h"
#include "app/options/requests.h"
#include "app/specs/requests.h"
#include "app/specs/specs.h"

namespace hydrascope::app {
namespace {

Option seed() {
  std::vector<Option> options = runtime_options();
  Option option = row_of(options, &RunRequest::seed);
  option.help = "start of the random weights of `create`";
  option.group = "Create";
  return option;
}

std::vector<std::string> subcommands_of(const Option& option) {
  if (option.field == &ModelRequest::word) return {"info", "classes", "create", "path"};
  if (option.field == &ModelInfoRequest::verify) return {"info"};
  if (option.field == &ModelRequest::num_classes) return {"create"};
  for (const Field& field : std::initializer_list<Field>{
           &ModelRequest::attention, &ModelRequest::attention_options, &ModelRequest::rel_pos,
           &ModelRequest::rel_pos_options, &ModelRequest::pos_embed, &TransformRequest::img_size})
    if (option.field == field) return {"info", "create"};
  if (option.field == &OutputRequest::format) return {"list", "info", "classes"};
  if (option.group == "Model" || option.group == "Preprocessing") return {"info"};
  if (option.group == "Create") return {"create"};
  return {};
}

}  // namespace

CommandSpec models_spec() {
  CommandSpec spec;
  spec.name = "models";
  spec.summary =
      "list models and attention mechanisms; describe or create one, or a file of weights";
  spec.group = "Make and describe models";
  spec.subcommands = {
      {"list", "bundled models, architectures, attention mechanisms and position rules"},
      {"info", "description of a model, a file, a mechanism or a rule",
       "[MODEL|FILE|MECHANISM|RULE]"},
      {"classes", "classes of a model, with named groups of ImageNet's", "[MODEL]"},
      {"create", "a checkpoint with random weights", "[ARCHITECTURE]"},
      {"path", "path of a model's file, bundled or in the Hugging Face cache", "[MODEL]"}};
  // `info` shows the transform, which all of them change.
  spec.options = join(
      {hide(model_options(), {&ModelRequest::pos_interp, &ModelRequest::overview}),
       without(new_head_options(), {&ModelRequest::reset_head}),
       hide(preprocessing_options(), {&TransformRequest::crop_pct, &TransformRequest::crop_mode,
                                      &TransformRequest::interpolation, &TransformRequest::mean,
                                      &TransformRequest::std, &image::DecodeOptions::apply_exif}),
       in_group("Create", Role::place, {stored_dtype("float32")}),
       {seed()},
       {flag("verify",
             "read all weights of FILE too; exit code 4 if some are NaN or infinite (text and json "
             "name them)",
             into(&ModelInfoRequest::verify), role(Role::report))},
       output_options(),
       general_options()});
  for (Option& option : spec.options) option.subcommands = subcommands_of(option);
  spec.common = {&ModelRequest::word,       &ModelRequest::attention, &TransformRequest::img_size,
                 &ModelInfoRequest::verify, &OutputRequest::file,     &OutputRequest::format};
  spec.examples = {
      "hydrascope models list",
      "hydrascope models info deit_base_patch16_224",
      "hydrascope models info model.safetensors --verify",
      "hydrascope models info hedgehog",
      "hydrascope models classes --format csv",
      "hydrascope models create --arch deit_base_patch16_224 --set seed=0 -o base.safetensors",
  };
  return spec;
}

}  // namespace hydrascope::app
