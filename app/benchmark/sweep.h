// The cross product of what `benchmark` was asked for, as command lines of single runs. Free of
// LibTorch.
#pragma once

#include "app/options.h"

#include <string>
#include <vector>

namespace hydrascope::app {

/// "softmax,hydra" and "softmax;hydra:last4,softmax:0-7" -> specs. Commas also stand inside one
/// spec ("softmax:0-9,hydra:10-11"): where a ':' occurs, ';' separates.
std::vector<std::string> split_attention_list(const std::string& text);

/// The options of one run, the ones a list may be given for being single values there.
CommandSpec single_run_spec();

/// Words for `parse(single_run_spec(), words)`, one list a combination, in the order models,
/// attention, sizes, batches, precisions, devices, kernels. `--preset 1080p` fills what was not
/// given. An --attn-opt goes to the combinations that run its mechanism; one that none runs is
/// Error(invalid_argument).
std::vector<std::vector<std::string>> sweep(const ParsedOptions& options);

}  // namespace hydrascope::app
