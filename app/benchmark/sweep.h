// From the lists of the `benchmark` command to one request per combination.
#pragma once

#include "app/options/requests.h"

#include <string>
#include <vector>

namespace hydrascope::app {

/// One combination to measure.
struct BenchmarkRun {
  ModelRequest model;
  TransformRequest transform;
  RunRequest run;
};

/// The cross product of the lists, the last list varying fastest. A setting of a mechanism goes to
/// the runs whose attention has it, a calibration to those in int8. Throws Error(invalid_argument)
/// for a setting that no run takes.
std::vector<BenchmarkRun> sweep(const ParsedOptions& options);

/// "softmax,hydra" -> both; with ':' or ';' a spec holds commas of its own, and ';' separates:
/// "softmax:0-9,hydra:10-11;hydra".
std::vector<std::string> split_attention_list(const std::string& text);

}  // namespace hydrascope::app
