// What the files of an input are called.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// Names that no other input of the run has.
class OutputNames {
 public:
  OutputNames() = default;
  /// `endings` are what is written after a name ("a" + ".heatmap.png") in `folder`: a name whose
  /// file is one of `inputs` is not given.
  OutputNames(std::filesystem::path folder, std::vector<std::string> endings,
              std::vector<std::filesystem::path> inputs)
      : folder_(std::move(folder)), endings_(std::move(endings)), inputs_(std::move(inputs)) {}

  /// The file's name without its extension; "NAME-2", "NAME-3", ... where that is taken. Cut to
  /// what leaves room for ".heatmap.png" in a file name. "input" where nothing is left of it.
  std::string name_for(const std::filesystem::path& input);

 private:
  [[nodiscard]] bool is_input(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<std::string> endings_;
  std::vector<std::filesystem::path> inputs_;
  std::set<std::string> taken_;
  std::map<std::string, int> last_number_;  ///< of a name that came before
};

}  // namespace hydrascope::app
