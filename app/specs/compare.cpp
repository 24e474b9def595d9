// The table of `hydrascope compare`.
#include "app/command.h"
#include "app/evaluate/evaluate_options.h"
#include "app/options/option_builders.h"

namespace hydrascope::app {

CommandSpec compare_spec() {
  CommandSpec spec;
  spec.name = "compare";
  spec.summary = "how often two models, or two settings of one, agree on pictures";
  spec.group = "Measure";
  spec.positionals = "PICTURES...";
  spec.options =
      join({model_options(), agreement_options(), set_input_options(), labelled_set_options(),
            without(label_options(), {"label-type"}), preprocessing_options(),
            set_runtime_options(), output_options(), general_options()});
  spec.common = {"model",    "attn",         "against", "against-attn", "against-precision",
                 "img-size", "limit-images", "output",  "format"};
  spec.examples = {
      "hydrascope compare photos/ -m converted.safetensors --against deit_tiny_patch16_224.softmax",
      "hydrascope compare photos/ --against-precision bfloat16",
      "hydrascope compare photos/ --attn hydra:last2 --against-attn softmax",
      "hydrascope compare imagenet/val -m a.safetensors --against b.safetensors --format json",
  };
  return spec;
}

}  // namespace hydrascope::app
