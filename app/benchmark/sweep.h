// From the lists of the `benchmark` command to one request per combination.
#pragma once

#include "app/options/requests.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::app {

/// One combination to measure.
struct BenchmarkRun {
  ModelRequest model;
  TransformRequest transform;
  RunRequest run;
};

/// How long to measure; an unset number is chosen.
struct MeasureOptions {
  std::int64_t warmup = -1;      ///< -1: until the timings settle, at most 10 s or 20 runs
  std::int64_t iterations = -1;  ///< -1: at least 5, and until `duration`
  double duration = 2;           ///< seconds
};

struct BenchmarkRequest {
  Console console = {};
  OutputRequest output = {};
  std::vector<BenchmarkRun> runs = {};
  std::string stage = {};
  std::vector<std::string> pictures = {};
  MeasureOptions measure = {};
  std::string html = {};
  std::string baseline = {};
  double most_percent_slower = 5;
  int threads = 0;  ///< of the model
};

/// The cross product of the lists, the last list varying fastest. A setting of a mechanism goes to
/// the runs whose attention has it, a calibration to those in int8. Throws Error(invalid_argument)
/// for a setting that no run takes.
std::vector<BenchmarkRun> sweep(const ParsedOptions& options);

/// "softmax,hydra" -> both; with ':' or ';' a spec holds commas of its own, and ';' separates:
/// "softmax:0-9,hydra:10-11;hydra".
std::vector<std::string> split_attention_list(const std::string& text);

}  // namespace hydrascope::app
