// The files that a command line wants written, before the work begins: none of them is read by the
// same run, and no two are one.
#pragma once

#include "app/options/options.h"

#include <filesystem>
#include <string>

namespace hydrascope::app {

/// Throws Error(invalid_argument) where an option names a file to write that another option or an
/// argument names to be read, by whatever spelling or link, or that another one names to write.
void check_written_files(const ParsedOptions& options);

/// The same of one file: throws where `to` is the weights `read`, or is there already beside
/// their index of shards. `place` is what names it, for the message.
void refuse_input(const std::filesystem::path& to, const std::string& place,
                  const std::filesystem::path& read);

}  // namespace hydrascope::app
