// Model-only throughput: random input in, logits out. One JSON line, as
// tests/bench/peers/bench_timm.py prints it.   model_bench [--model NAME] [--batch N] [--img-size
// N|HxW] [--iters K] [--warmup K] [--threads T]
//                          [--device D] [--precision P]
#include "app/command.h"
#include "app/model_source.h"
#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <malloc.h>

namespace hydrascope::app {
namespace {

int run(const std::vector<std::string>& words) {
  CommandSpec spec;
  spec.name = "model_bench";
  spec.options = join({model_options(),
                       preprocessing_options(),
                       runtime_options(),
                       output_options(),
                       general_options(),
                       {{.name = "iters", .kind = ValueKind::integer, .default_value = "10"},
                        {.name = "warmup", .kind = ValueKind::integer, .default_value = "2"}}});
  const ParsedOptions options = parse(spec, words);
  const ModelSource source = open_model(options);
  const image::Size size = resolve_transform(options, source).config.img_size;
  const std::int64_t batch = options.given("batch-size") ? options.integer("batch-size") : 1;
  model::Classifier classifier = make_classifier(options, source);
  const at::Tensor input = at::randn({batch, 3, size.height, size.width});
  std::vector<double> milliseconds;
  for (std::int64_t i = -options.integer("warmup"); i < options.integer("iters"); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor logits = classifier.logits(input);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - begin;
    if (!logits.isfinite().all().item<bool>())
      throw Error(ErrorCode::failed, "logits are not finite", "model_bench");
    if (i >= 0) milliseconds.push_back(elapsed.count());
  }
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2];
  std::cout << "{\"images_per_second\":" << 1000.0 * static_cast<double>(batch) / median
            << ",\"ms_p50\":" << median << ",\"ms_min\":" << milliseconds.front()
            << ",\"batch\":" << batch << ",\"threads\":" << at::get_num_threads()
            << ",\"device\":\"" << classifier.options().device.str() << "\",\"precision\":\""
            << classifier.options().precision.name() << "\"}\n";
  return kExitOk;
}

}  // namespace
}  // namespace hydrascope::app

int main(int argc, char** argv) {
  // As the program does (app/main.cpp): activations stay in the heap.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  try {
    return hydrascope::app::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
