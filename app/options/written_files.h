// The files that a command line names, before the work begins: a file to read is there, and none to
// write is read by the same run or written twice.
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

/// Throws NotFound for a file that an option names to be read (`Option::is_read`) and that is not
/// there.
void check_read_files(const ParsedOptions& options);

}  // namespace hydrascope::app
