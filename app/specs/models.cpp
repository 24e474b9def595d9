// The table of `hydrascope models`.
#include "app/command.h"
#include "app/options.h"

namespace hydrascope::app {

CommandSpec models_spec() {
  CommandSpec spec;
  spec.name = "models";
  spec.summary = "list, info, create (random weights), path of models";
  spec.positionals = "[MODEL|MECHANISM]";
  spec.subcommands = {"list", "info", "create", "path"};
  spec.options = join({model_options(), preprocessing_options(), runtime_options(),
                       output_options(), general_options()});
  spec.examples = {
      "hydrascope models list",
      "hydrascope models info deit_base_patch16_224",
      "hydrascope models info hedgehog",
      "hydrascope models create --arch deit_base_patch16_224 --seed 0 -o base.safetensors",
  };
  return spec;
}

}  // namespace hydrascope::app
