// The table of `hydrascope inspect`.
#include "app/command.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {

CommandSpec inspect_spec() {
  CommandSpec spec;
  spec.name = "inspect";
  spec.summary = "print the header of a checkpoint without loading it";
  spec.group = "Make and inspect models";
  spec.positionals = "FILE";
  spec.options = join(
      {{flag("use-ema", "show the moving average of the weights that the file holds", in("Model"))},
       output_options(),
       general_options()});
  spec.common = {"use-ema", "output", "format"};
  spec.examples = {"hydrascope inspect model.safetensors",
                   "hydrascope inspect checkpoint.pth --format json"};
  return spec;
}

}  // namespace hydrascope::app
