// Results of earlier runs that are read: records of classify --resume, then two of benchmark, which are compared.
#include "app/benchmark/comparison.h"
#include "app/benchmark/row.h"
#include "app/results/resumed_records.h"
#include "tests/fuzz/fuzz.h"

#include <sstream>

namespace app = hydrascope::app;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hydrascope::fuzz::Folder kFolder;
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 3);
  const auto file = kFolder.write("records.jsonl", parts[0]);
  gives_result([&] {
    app::ResumedRecords records(file);
    require(records.num_inputs() >= 0 && records.bytes() <= parts[0].size() + 1,
            "what is counted is in the file");
    static_cast<void>(records.answers(app::file_input("a.jpg", "a.jpg")));
  });
  app::BenchmarkResult results[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto benchmark = kFolder.write("benchmark.json", parts[i + 1]);
    if (!gives_result([&] { results[i] = app::read_benchmark(benchmark.string()); })) return 0;
  }
  gives_result([&] {
    std::ostringstream out;
    const app::Comparison comparison = app::compare(results[0], results[1]);
    for (const app::Format format : {app::Format::text, app::Format::json, app::Format::csv})
      app::write(comparison, format, out, out);
    static_cast<void>(app::slower_rows(results[0], results[1], 5));
    static_cast<void>(app::chart_svg(results[0]));
  });
  return 0;
}
