// convert --format-only: another file of the same weights.
#pragma once

#include "app/options/requests.h"
#include "model/checkpoint/formats/safetensors.h"

#include <filesystem>
#include <optional>
#include <string>

namespace hydrascope::app {

/// IN OUT, or --model and --output in their places; `architecture` is the name of what IN holds, or
/// "". Returns the exit code.
int rewrite_checkpoint(const ParsedOptions& options, const ModelRequest& model,
                       const std::string& architecture);

/// Throws Error(invalid_argument) for a file that is none of this program's format, or that exists
/// without `force`; makes its folder.
void prepare_output(const std::filesystem::path& file, bool force);
/// `--save-dtype`; nothing where it is not given.
std::optional<checkpoint::Dtype> weights_dtype(const ParsedOptions& options);

}  // namespace hydrascope::app
