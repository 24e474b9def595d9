// The table of `hydrascope faithfulness`.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {

CommandSpec faithfulness_spec() {
  CommandSpec spec;
  spec.name = "faithfulness";
  spec.summary = "which heatmaps name the patches that count: all methods against chance";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), faithfulness_options(), set_input_options(), labelled_set_options(),
            without(label_options(), {"label-type"}), preprocessing_options(),
            hide(set_runtime_options(), {"keep-tokens", "keep-layer"}), output_options(),
            general_options()});
  spec.common = {"model", "attn",     "method",       "measure", "layer",
                 "class", "img-size", "limit-images", "output",  "format"};
  spec.examples = {
      "hydrascope faithfulness photos/",
      "hydrascope faithfulness photos/ --method hydra,attention,gradcam --steps 7",
      "hydrascope faithfulness imagenet/val --limit-images 500 --measure positive,negative --class "
      "target --format json",
  };
  return spec;
}

}  // namespace hydrascope::app
