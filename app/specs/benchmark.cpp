// The table of `hydrascope benchmark`.
#include "app/options/option_builders.h"
#include "app/specs/specs.h"

namespace hydrascope::app {
namespace {

std::vector<Option> swept_options() {
  std::vector<Option> pictures = preprocessing_options();
  std::vector<Option> list = join(
      {model_options(), runtime_options(), {named(pictures, "img-size"), named(pictures, "fit")}});
  for (const char* name : {"model", "img-size", "batch-size", "precision", "device", "kernels"})
    named(list, name).comma_list = true;
  named(list, "attn").repeatable = true;
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
  spec.options = join(
      {swept_options(),
       {text("stage", "timed part: tensor to logits, file to classes, both, or a training step",
             by_default("model"), one_of({"model", "end_to_end", "both", "train_step"}),
             in("Measurement"), role(Role::task)),
        integer("warmup", "runs before the measured ones", otherwise("until the times settle"),
                at_least(0), in("Measurement"), role(Role::task)),
        integer("iters", "measured runs", otherwise("at least 5, and until --duration"),
                at_least(1), in("Measurement"), role(Role::task)),
        number("duration", "seconds to measure every row for", takes("S"), by_default("2"),
               at_least(0), in("Measurement"), role(Role::task)),
        text("html",
             "also write one page of images/s and memory by image size; .svg: the charts alone",
             takes("FILE.html|.svg"), in("Output"), written, role(Role::place)),
        text("compare", "print the ratios of two results, with 95 % intervals, and stop",
             takes("A.json B.json"), values(2), in("Comparison"), completes_files,
             role(Role::report)),
        text("baseline", "earlier result; exit code 4 if a row is slower", takes("FILE"),
             in("Comparison"), completes_files, role(Role::report)),
        number("fail-if-slower", "percent that images/s may be below --baseline", takes("PCT"),
               by_default("5"), at_least(0), in("Comparison"), role(Role::report))},
       record_output_options(),
       general_options()});
  spec.common = {"model",  "attn",  "img-size", "batch-size", "precision",
                 "device", "stage", "output",   "format"};
  spec.examples = {
      "hydrascope benchmark --attn softmax,hydra --img-size 224,512,1088x1920 --html speed.html",
      "hydrascope benchmark --attn 'softmax;hydra;hedgehog,hydra:last4' --img-size 1080x1920 "
      "--format md",
      "hydrascope benchmark --compare before.json after.json",
  };
  return spec;
}

}  // namespace hydrascope::app
