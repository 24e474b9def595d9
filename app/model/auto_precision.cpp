#include "app/model/auto_precision.h"

#include "app/results/json.h"
#include "app/run/console.h"
#include "model/inference/cpu/precision_choice.h"

#include <map>
#include <optional>
#include <string>

namespace hydrascope::app {

namespace {

using model::inference::StorageTimings;

/// Measured once in a process.
const std::optional<StorageTimings>& timings_of(std::int64_t embed_dim) {
  static std::map<std::int64_t, std::optional<StorageTimings>> known;
  const auto found = known.find(embed_dim);
  if (found != known.end()) return found->second;
  return known.emplace(embed_dim, model::inference::measure_storages(embed_dim)).first->second;
}

bool prefers_bfloat16(const std::optional<StorageTimings>& timings) {
  return model::inference::faster_storage(timings) == kernels::Storage::bfloat16;
}

std::string milliseconds(double seconds) { return fixed(1e3 * seconds, 2) + " ms"; }

std::string describe_choice(const std::optional<StorageTimings>& timings) {
  if (!timings) return "float32 (this processor has no instructions for bfloat16)";
  const std::string float32 = milliseconds(timings->float32);
  const std::string bfloat16 = milliseconds(timings->bfloat16);
  return prefers_bfloat16(timings)
             ? "bfloat16 (a tile of tokens takes " + bfloat16 + ", in float32 " + float32 + ")"
             : "float32 (a tile of tokens takes " + float32 + ", in bfloat16 " + bfloat16 + ")";
}

}  // namespace

RunRequest with_fastest_precision(RunRequest run, const c10::Device& device,
                                  const model::VitConfig& config, const Console& console) {
  if (!run.fastest || run.precision != "auto" || run.deterministic ||
      run.kernels == model::Kernels::reference || !device.is_cpu() ||
      !model::why_modules_alone(config).empty())
    return run;
  const std::optional<StorageTimings>& timings = timings_of(config.embed_dim);
  console.detail("precision: " + describe_choice(timings));
  run.precision = prefers_bfloat16(timings) ? "bfloat16" : "float32";
  return run;
}

std::string describe_fastest_precision() {
  constexpr std::int64_t kBundledEmbedDim = 192;
  return describe_choice(timings_of(kBundledEmbedDim));
}

}  // namespace hydrascope::app
