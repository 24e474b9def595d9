// The file of a folder that holds its weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::checkpoint {

/// The file that a folder stands for: model.safetensors, model.safetensors.index.json,
/// pytorch_model.bin or pytorch_model.bin.index.json, in this order; else the only file of weights
/// by its extension; else, among several, the one with "best" in its name, else the one with
/// "last". A folder without any stands for the weights of its only subfolder that has some, or for
/// a file of another format, for its reader to refuse. A note names the choice among several.
/// Throws Error(invalid_argument) that lists several, Error(not_found) if there are none,
/// Error(unreadable) for a folder that cannot be listed, and as `refuse_adapter` does.
std::filesystem::path choose_weights(const std::filesystem::path& folder,
                                     std::vector<std::string>& notes);

/// Whether the folder has files that `choose_weights` would look at.
bool holds_weights(const std::filesystem::path& folder);

}  // namespace hydrascope::checkpoint
