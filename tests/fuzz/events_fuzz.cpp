// The logs of a run that goes on: TensorBoard's events, metrics.jsonl and summary.csv of the one before.
#include "model/training/log/event_file.h"
#include "model/training/log/metric_log.h"
#include "tests/fuzz/fuzz.h"

namespace training = hydrascope::model::training;
using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hydrascope::fuzz::Folder kFolder;
  constexpr const char* kEvents = "events.out.tfevents.1.fuzz";
  constexpr std::int64_t kStep = 3;
  const auto parts = hydrascope::fuzz::parts_of(hydrascope::fuzz::as_text(data, size), 3);
  kFolder.write("metrics.jsonl", parts[0]);
  kFolder.write("summary.csv", parts[1]);
  // As a whole record, too: no change of one by chance has its checksum.
  const std::string record = training::tfrecord(parts[2]);
  const bool is_framed = size % 2 == 0;
  const auto file = kFolder.write(kEvents, is_framed ? std::string_view(record) : parts[2]);
  const auto given = std::filesystem::file_size(file);
  hydrascope::fuzz::gives_result([&] { training::EventFile(kFolder.path(), kStep); });
  require(std::filesystem::file_size(file) <= given + 64,
          "nothing but the beginning of a file is added");
  hydrascope::fuzz::gives_result([&] {
    training::MetricLog log(kFolder.path(), kStep);
    log.add_epoch({kStep + 1, 1, {{"loss", 0.5}}});
  });
  return 0;
}
