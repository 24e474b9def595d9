// The meaning of `--precision auto` on the CPU in commands whose answers are looked at; those that
// measure accuracy or make weights take float32.
#pragma once

#include "app/options/requests.h"
#include "app/run/console.h"
#include "model/config/config.h"

#include <c10/core/Device.h>

#include <string>

namespace hydrascope::app {

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
