// The table of `hydrascope benchmark`.
#include "app/command.h"
#include "app/options.h"

namespace hydrascope::app {
namespace {

std::vector<Option> benchmark_output_options() {
  std::vector<Option> list = output_options();
  for (Option& option : list) {
    if (option.name == "format") option.choices.emplace_back("md");
  }
  return list;
}

/// A shared option that takes a list here.
Option as_list(Option option) {
  option.comma_list = true;
  return option;
}

std::vector<Option> swept_options() {
  std::vector<Option> list = join({model_options(), runtime_options()});
  for (Option& option : list) {
    for (const char* name :
         {"model", "batch-size", "precision", "device", "kernels", "keep-tokens"}) {
      if (option.name == name) option = as_list(option);
    }
    if (option.name == "attn") option.repeatable = true;
  }
  for (Option& option : preprocessing_options()) {
    if (option.name == "img-size") list.push_back(as_list(option));
    if (option.name == "fit") list.push_back(option);
  }
  return list;
}

}  // namespace

CommandSpec benchmark_spec() {
  CommandSpec spec;
  spec.name = "benchmark";
  spec.aliases = {"bench"};
  spec.summary = "measure throughput, latency and memory of any combination";
  spec.group = "Measure";
  spec.positionals = "[PICTURE...]";
  spec.options =
      join({swept_options(),
            {{.name = "stage",
              .help = "what is timed: tensor to logits, file to classes, both, or a training step",
              .default_value = "model",
              .choices = {"model", "end_to_end", "both", "train_step"},
              .group = "Measurement"},
             {.name = "warmup",
              .kind = ValueKind::integer,
              .placeholder = "N",
              .help = "runs before the measured ones",
              .default_note = "until the times settle",
              .minimum = 0,
              .group = "Measurement"},
             {.name = "iters",
              .kind = ValueKind::integer,
              .placeholder = "N",
              .help = "measured runs",
              .default_note = "at least 5, and until --duration",
              .minimum = 1,
              .group = "Measurement"},
             {.name = "duration",
              .kind = ValueKind::number,
              .placeholder = "S",
              .help = "seconds to measure every row for",
              .default_value = "2",
              .minimum = 0,
              .group = "Measurement"},
             {.name = "preset",
              .help = "softmax, Hedgehog, Hydra and both mixed at 1080x1920 (HxW)",
              .choices = {"1080p"},
              .group = "Measurement"},
             {.name = "plot",
              .placeholder = "FILE.html|.svg",
              .help = "also draw images/s and memory against image size",
              .group = "Output",
              .completes_files = true},
             {.name = "compare",
              .placeholder = "A.json B.json",
              .help = "print the ratios of two results, with 95 % intervals, and stop",
              .values = 2,
              .group = "Comparison",
              .completes_files = true},
             {.name = "baseline",
              .placeholder = "FILE",
              .help = "exit with code 4 if a row is slower than in this result",
              .group = "Comparison",
              .completes_files = true},
             {.name = "fail-if-slower",
              .kind = ValueKind::number,
              .placeholder = "PCT",
              .help = "images/s may be PCT percent below those of --baseline",
              .default_value = "5",
              .minimum = 0,
              .group = "Comparison"}},
            benchmark_output_options(),
            general_options()});
  spec.common = {"model",  "attn",  "img-size", "batch-size", "precision",
                 "device", "stage", "preset",   "output",     "format"};
  spec.examples = {
      "hydrascope benchmark --attn softmax,hydra --img-size 224,512,1088x1920 --plot speed.html",
      "hydrascope benchmark --preset 1080p -m deit_base_patch16_224 --format md",
      "hydrascope benchmark --compare before.json after.json",
  };
  return spec;
}

}  // namespace hydrascope::app
