#include "app/model/running_model.h"

#include "app/pictures/inputs.h"
#include "app/results/json.h"
#include "app/run/assets.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "kernels/device/processors.h"
#include "kernels/error.h"
#include "model/device.h"
#include "model/image/decode.h"
#include "model/inference/cpu/precision_choice.h"
#include "model/transform.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace hydrascope::app {

std::vector<std::string> describe(const checkpoint::LoadReport& report) {
  std::vector<std::string> notes;
  if (!report.initialised.empty())
    notes.push_back("newly initialised, not from the file: " + some_of(report.initialised, 4));
  if (!report.unused.empty())
    notes.push_back("in the file, but not used: " + some_of(report.unused, 4));
  return notes;
}

namespace {

int share_of(int all, const std::optional<int>& asked, const RunRequest& request) {
  return asked ? *asked : std::max(1, all / request.launch.local_world_size);
}

}  // namespace

int model_threads(const RunRequest& request) {
  return share_of(kernels::device::processors().usable_cores(), request.threads, request);
}
int loader_workers(const RunRequest& request) {
  return share_of(kernels::device::processors().usable(), request.workers, request);
}

namespace {

using model::inference::Exits;

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

/// At most 32 pictures of `--set calibration` (spread evenly over what it names; the bundled
/// photographs when it is not given), transformed as pictures of this run are, at the model's own size:
/// (B, 3, H, W). Undefined with `--set calibration=none`. A picture that cannot be read is left out with a
/// note; Error when none can.
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

/// `exits` as far as the model and the device have them.
Exits exits_of(Exits exits, const model::inference::InferenceOptions& options,
               const model::VitConfig& config, const Console& console) {
  if (config.exits.empty() || !options.trace_layers.empty()) return Exits::off;
  if (exits != Exits::leave) return exits;
  if (!config.leaves_early()) return Exits::off;
  if (options.device.is_cpu() && options.memory.empty()) return Exits::leave;
  console.note(
      options.memory.empty()
          ? "note: pictures leave a model early on the CPU alone; here the whole model answers"
          : "note: all layers remember each frame: none leaves the model early");
  return Exits::off;
}

}  // namespace

model::Classifier make_classifier(const RunRequest& request, const ModelSource& source,
                                  const image::TransformConfig& transform, const Console& console,
                                  std::vector<std::int64_t> trace_layers, bool embeds,
                                  model::inference::Exits exits) {
  if (source.config.in_chans != 3 && source.config.in_chans != 1) {
    throw Error(
        ErrorCode::invalid_argument,
        "pictures have 3 channels, the model takes " + std::to_string(source.config.in_chans),
        source.name);
  }
  model::inference::InferenceOptions wanted;
  wanted.device = model::resolve_device(request.device);
  wanted.precision = model::resolve_precision(request.precision, wanted.device);
  wanted.kernels = request.kernels;
  if (!request.calibration.empty() && !wanted.precision.int8)
    throw Error(ErrorCode::invalid_argument, "only int8 is calibrated",
                "`calibration` with `precision` " + std::string(wanted.precision.name()),
                "add `precision` int8");
  wanted.deterministic = request.deterministic;
  // Explanations of the classifier's answers have to keep to it, too.
  if (wanted.deterministic)
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  wanted.trace_layers = std::move(trace_layers);
  wanted.memory = model::choose_memories(request.memory, request.memory_options, source.config);
  wanted.exits = embeds || source.answer ? model::inference::Exits::off
                                         : exits_of(exits, wanted, source.config, console);
  // Setting the number begins a pool of threads that spin, see one_torch_thread.cpp.
  if (const int threads = model_threads(request); threads != at::get_num_threads())
    at::set_num_threads(threads);
  model::seed_generators(request.seed);
  if (source.random_weights) return {source.config, wanted};
  if (wanted.precision.int8) {
    wanted.calibration = calibration_images(request.calibration, source, transform, console);
    wanted.calibration_source = request.calibration.empty() ? "bundled" : request.calibration;
  }
  std::optional<model::FeatureAnswer> answer = source.answer;
  if (embeds && !answer) answer = model::FeatureAnswer{source.config};
  model::Classifier classifier(source.config, source.weights, wanted,
                               source.answer ? checkpoint::HeadOptions{} : source.head,
                               answer ? &*answer : nullptr);
  for (const std::string& note : describe(classifier.load_report())) console.note("note: " + note);
  return classifier;
}

model::explain::Explainer make_explainer(std::uint64_t seed, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         const model::inference::InferenceOptions& classifier) {
  const auto fill = [&](model::VisionTransformerImpl& modules,
                        std::span<const std::int64_t> layers) {
    const checkpoint::Loading loading = source.weights.start_loading(modules, source.head);
    for (const std::int64_t layer : layers)
      model::fill(modules.block(layer), loading.weights(),
                  model::block_prefix(source.config.block_of(layer)));
    model::fill(modules, loading.weights(), "", model::is_outside_blocks);
  };
  model::seed_generators(seed);
  model::explain::Explainer explainer(source.config, requests, fill,
                                      {classifier.device, classifier.memory});
  if (source.class_vectors.defined()) explainer.set_class_vectors(source.class_vectors);
  return explainer;
}

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
