// Models fetched from a hub into Hugging Face's cache, by the command `curl`. Nothing but
// `hydrascope models download` comes here.
#pragma once

#include "app/model/assets.h"
#include "app/run/console.h"

#include <filesystem>
#include <string>

namespace hydrascope::app {

/// `asked`, HF_ENDPOINT or Hugging Face's address, the first that is there, without a slash at its
/// end. Throws UsageError unless it is https, or http on this machine.
std::string hub_address(const std::string& asked);

/// Fetches what `-m` reads of a revision (config.json, preprocessor_config.json, the weights) and
/// gives its folder in the cache, which is laid out as Hugging Face's tools do it: blobs/DIGEST,
/// snapshots/COMMIT/NAME that point there, refs/REVISION. What is there already is not fetched
/// again, what was begun goes on. Files of Git LFS must have the SHA-256 and all the size that the
/// hub lists; the revision has its name when all of it is whole. Throws Error(failed), and
/// Error(unwritable) where the cache cannot be written.
std::filesystem::path download_model(const HubName& name, const std::string& hub,
                                     const Console& console);

}  // namespace hydrascope::app
