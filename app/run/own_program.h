// This program: where its file is, and how it was started, for starting it again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The file of this program, without links: as /proc names it or, where that is not mounted, as the
/// system was told to start it. Empty where neither says.
const std::filesystem::path& own_file();

struct OwnProgram {
  std::string file;                ///< its real path: a process that runs it keeps its name
  std::vector<std::string> words;  ///< argv, with the name it was called by
};

/// Nothing where the system does not say.
std::optional<OwnProgram> own_program();

/// Seconds since this process began, its front included, which it was before: to a hundredth. 0 where
/// the system does not say.
double seconds_of_process();

/// `words` for execv: pointers into them, then a null pointer.
std::vector<char*> exec_words(std::vector<std::string>& words);

}  // namespace hydrascope::app
