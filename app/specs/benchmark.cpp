// The table of `hydrascope benchmark`.
#include "app/benchmark/sweep.h"
#include "app/options/option_builders.h"
#include "app/specs/specs.h"

namespace hydrascope::app {
namespace {

std::vector<Option> swept_options() {
  std::vector<Option> pictures = preprocessing_options();
  std::vector<Option> list = join(
      {model_options(),
       runtime_options(),
       {row_of(pictures, &TransformRequest::img_size), row_of(pictures, &TransformRequest::fit)}});
  for (const Field& field : std::initializer_list<Field>{
           &ModelRequest::word, &TransformRequest::img_size, &RunRequest::batch_size,
           &RunRequest::precision, &RunRequest::device, &RunRequest::kernels})
    row_of(list, field).comma_list = true;
  row_of(list, &ModelRequest::attention).repeatable = true;
  return list;
}

}  // namespace

CommandSpec benchmark_spec() {
  CommandSpec spec;
  spec.name = "benchmark";
  spec.program = kTrainer;
  spec.aliases = {"bench"};
  spec.summary = "measure throughput, latency and memory of any combination";
  spec.group = "Measure";
  spec.positionals = "[PICTURE...]";
  spec.options = join(
      {swept_options(),
       {text("timed", "timed part: tensor to logits, file to classes, or a training step",
             into(&BenchmarkRequest::stage), by_default("model"),
             one_of({"model", "end_to_end", "train_step"}), in("Measurement"), role(Role::task)),
        integer("warmup", "runs before the measured ones", into(&MeasureOptions::warmup),
                otherwise("until the times settle"), at_least(0), in("Measurement"),
                role(Role::task), keyed("measure.warmup")),
        integer("iters", "measured runs", into(&MeasureOptions::iterations),
                otherwise("at least 5, and until --set duration"), at_least(1), in("Measurement"),
                role(Role::task), keyed("measure.iters")),
        number("duration", "seconds to measure every row for", into(&MeasureOptions::duration),
               takes("S"), by_default("2"), at_least(0), in("Measurement"), role(Role::task),
               keyed("measure.duration")),
        text("html",
             "also write one page of images/s and memory by image size; .svg: the charts alone",
             into(&BenchmarkRequest::html), takes("FILE.html|.svg"), in("Output"), written,
             role(Role::place)),
        text("baseline", "earlier result; exit code 4 if a row is slower",
             into(&BenchmarkRequest::baseline), takes("FILE"), in("Comparison"), reads,
             role(Role::report)),
        number("fail-if-slower", "percent that images/s may be below --baseline",
               into(&BenchmarkRequest::most_percent_slower), takes("PCT"), by_default("5"),
               at_least(0), in("Comparison"), role(Role::report), keyed("measure.fail-if-slower"))},
       output_options(record_formats()),
       general_options()});
  spec.common = {&ModelRequest::word,      &ModelRequest::attention, &TransformRequest::img_size,
                 &RunRequest::batch_size,  &RunRequest::precision,   &RunRequest::device,
                 &BenchmarkRequest::stage, &OutputRequest::file,     &OutputRequest::format};
  spec.examples = {
      "hydrascope benchmark --attn softmax,hydra --img-size 224,512,1088x1920 --html speed.html",
      "hydrascope benchmark --attn 'softmax;hydra;hedgehog,hydra:last4' --img-size 1080x1920 "
      "--format csv",
      "hydrascope benchmark --img-size 384 --baseline before.json",
  };
  return spec;
}

}  // namespace hydrascope::app
