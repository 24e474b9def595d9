// From a model in a file to one that runs on its device, and to one that explains it.
#pragma once

#include "app/model/model_source.h"
#include "app/options/requests.h"
#include "app/run/console.h"
#include "model/explain/explainer.h"
#include "model/image/transform_plan.h"
#include "model/inference/classifier.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Sentences that a user should know of how weights were loaded.
std::vector<std::string> describe(const checkpoint::LoadReport& report);

/// The model on its device, ready to run as `request` says; it traces the tokens that enter
/// `trace_layers`. Each of several processes on a machine takes its share of the machine.
/// `transform` is for the pictures that int8 is calibrated on. With `embeds` its outputs have features,
/// the input of the classifier unless `source.answer` says others. `exits` is for a model that has some:
/// pictures leave if its configuration says so, no layer is traced, nothing is embedded and the device is
/// the CPU. Notes on what was loaded go to `console`.
model::Classifier make_classifier(const RunRequest& request, const ModelSource& source,
                                  const image::TransformConfig& transform, const Console& console,
                                  std::vector<std::int64_t> trace_layers = {}, bool embeds = false,
                                  model::inference::Exits exits = model::inference::Exits::leave);

/// The explainer of that classifier's predictions: the layers that `requests` need, a second time,
/// as modules in float32 on its device, with its memories. Weights that the checkpoint lacks have the
/// classifier's values.
model::explain::Explainer make_explainer(std::uint64_t seed, const ModelSource& source,
                                         std::span<const model::explain::Request> requests,
                                         const model::inference::InferenceOptions& classifier);

/// `--threads`, or the available processors divided among the processes of this machine.
int model_threads(const RunRequest& request);
/// `--set workers`, with the same default.
int loader_workers(const RunRequest& request);

// The meaning of `--precision auto` on the CPU in commands whose answers are looked at; those that
// measure accuracy or make weights take float32.

/// `run` with the faster of float32 and bfloat16 in the place of `auto`, as some milliseconds of
/// measuring on this processor say; -v tells what they said. float32 where the bits must not depend
/// on that (`--set deterministic=on`) and where the modules compute (`--set kernels=reference`). On a `device`
/// that is a GPU nothing changes, nor where `run.fastest` is not set.
RunRequest with_fastest_precision(RunRequest run, const c10::Device& device,
                                  const model::VitConfig& config, const Console& console);

/// The precision of the bundled models, and the reason: "bfloat16 (a tile of tokens takes 0.31 ms, in
/// float32 0.58 ms)".
std::string describe_fastest_precision();

}  // namespace hydrascope::app
