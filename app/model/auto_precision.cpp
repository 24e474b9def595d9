#include "app/model/auto_precision.h"

#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "app/run/assets.h"
#include "app/run/console.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "model/image/decode.h"
#include "model/inference/cpu/precision_choice.h"
#include "model/transform.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

namespace {

constexpr std::size_t kMostImages = 32;

std::vector<Input> named_inputs(const std::string& word) {
  std::vector<Input> inputs;
  if (word.empty()) {
    for (const std::string& file : bundled_images()) inputs.push_back(file_input(file, file));
    return inputs;
  }
  InputStream stream({word}, /*recursive=*/true);
  while (std::optional<Input> input = stream.next())
    if (!input->is_video) inputs.push_back(std::move(*input));
  return inputs;
}

/// At most kMostImages of them, evenly spread: folders are sorted, often by class.
std::vector<Input> spread(const std::vector<Input>& inputs) {
  const std::size_t count = std::min(inputs.size(), kMostImages);
  std::vector<Input> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(inputs[i * inputs.size() / count]);
  return chosen;
}

}  // namespace

at::Tensor calibration_images(const std::string& word, const ModelSource& source,
                              image::TransformConfig transform, const Console& console) {
  if (word == "none") return {};
  transform.views = image::Views::whole;  // one size for all of them
  transform.img_size = {source.config.img_height, source.config.img_width};
  std::vector<at::Tensor> images;
  for (const Input& input : spread(named_inputs(word))) {
    try {
      if (input.error) throw Error(*input.error, input.message, input.given);
      images.push_back(image::apply_transform(transform, image::read_picture(input.path, {})));
    } catch (const Error& error) {
      console.note("note: not calibrated on " + printable(input.given + ": " + error.what()));
    }
  }
  if (images.empty()) {
    if (word.empty()) return {};  // an installation without photographs
    throw UsageError("no picture to calibrate on", "`calibration` " + word,
                     "name a folder of pictures, or none");
  }
  return at::stack(images);
}

}  // namespace hydrascope::app
