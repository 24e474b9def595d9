// The table of `hydrascope evaluate`.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {

CommandSpec evaluate_spec() {
  CommandSpec spec;
  spec.name = "evaluate";
  spec.aliases = {"eval", "validate"};
  spec.summary = "measure top-1, top-5 and calibration over a labelled set";
  spec.group = "Measure";
  spec.positionals = "FOLDER";
  spec.options =
      join({model_options(), set_input_options(), labelled_set_options(),
            hide(label_options(), {"label-type"}), score_options(), preprocessing_options(),
            views_options(), set_runtime_options(), launch_options(), output_options(),
            earlier_evaluate_options(), general_options()});
  spec.common = {"model",      "attn",         "img-size",     "precision", "device",
                 "labels-csv", "limit-images", "require-top1", "output",    "format"};
  spec.examples = {
      "hydrascope evaluate imagenet/val",
      "hydrascope evaluate pictures --labels-csv pictures/images.csv --format json",
      "hydrascope evaluate imagenet/val --img-size 384 --require-top1 70",
      "hydrascope evaluate imagenet/val --real-labels real.json --per-class classes.csv",
      "torchrun --nproc-per-node 8 --no-python hydrascope evaluate imagenet/val",
  };
  return spec;
}

}  // namespace hydrascope::app
