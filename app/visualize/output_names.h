// What the files of an input are called. Free of LibTorch.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace hydrascope::app {

/// Names that no other input of the run has.
class OutputNames {
 public:
  /// The file's name without its extension; "NAME-2", "NAME-3", ... where that is taken. Cut to
  /// what leaves room for ".heatmap.png" in a file name. "input" where nothing is left of it.
  std::string name_for(const std::filesystem::path& input);

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> last_number_;  ///< of a name that came before
};

}  // namespace hydrascope::app
