// The table of `hydrascope diagnose`.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {
namespace {

std::vector<Option> table_options() {
  std::vector<Option> options = output_options();
  named(options, "output").placeholder = "FILE";
  named(options, "output").help = "file of the table; a page with charts where it ends in .html";
  options.push_back(integer("limit-images", "look at N pictures, evenly spread over those named",
                            by_default("32"), at_least(1), in("Input")));
  return options;
}

}  // namespace

CommandSpec diagnose_spec() {
  CommandSpec spec;
  spec.name = "diagnose";
  spec.summary = "measure the attention of every layer and head, and its distance from softmax";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), layer_reference_options(),
            without(set_input_options(), {"recursive", "on-error"}), table_options(),
            preprocessing_options(),
            without(runtime_options(), {"batch-size", "workers", "precision", "calibration",
                                        "keep-tokens", "keep-layer", "kernels", "deterministic"}),
            general_options()});
  spec.common = {"model",    "attn",         "against", "against-attn",
                 "img-size", "limit-images", "output",  "format"};
  spec.examples = {
      "hydrascope diagnose photos/",
      "hydrascope diagnose photos/ -m deit_tiny_patch16_224.hydra_last2 -o attention.html",
      "hydrascope diagnose photos/ --attn hedgehog --against-attn softmax --format json",
  };
  return spec;
}

}  // namespace hydrascope::app
