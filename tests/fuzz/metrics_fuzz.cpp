// The log of a run that goes on: metrics.jsonl of the one before.
#include "model/training/log/metric_log.h"
#include "tests/fuzz/fuzz.h"

namespace training = hydrascope::model::training;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hydrascope::fuzz::Folder kFolder;
  constexpr std::int64_t kStep = 3;
  const auto file = kFolder.write("metrics.jsonl", hydrascope::fuzz::as_text(data, size));
  hydrascope::fuzz::gives_result([&] {
    training::MetricLog log(kFolder.path(), kStep);
    const auto kept = std::filesystem::file_size(file);
    hydrascope::fuzz::require(kept <= size, "a file is cut, nothing else");
    log.add({kStep + 1, 1, {{"loss", 0.5}}});
    hydrascope::fuzz::require(std::filesystem::file_size(file) > kept, "a record is appended");
  });
  return 0;
}
