// What checkpoints say beside their weights.
#pragma once

#include "model/checkpoint/pickle_value.h"
#include "model/checkpoint/safetensors.h"

namespace hydrascope::checkpoint {

/// The text, numbers and booleans ("true") of `root`, and of its entry `args` (a namespace or a
/// dict) as "args.NAME". Left out: everything else, names and text that are not UTF-8 or longer
/// than 4096 bytes, and what comes after the first 1024 entries.
Metadata read_metadata(const pickle::Dict& root);

}  // namespace hydrascope::checkpoint
