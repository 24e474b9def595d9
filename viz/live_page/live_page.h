// The page of a server: a person drops a picture, the page asks its own server and shows what comes
// back in the views of the HTML report, and by a click what a patch attends to.
// Test: tests/app/serve/.
#pragma once

#include "viz/html_report/html_report.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::viz {

/// `options` are those of the report: title, facts, the models' names, what is chosen at first.
/// `patch_layers`: of each model the layers that the server knows rows of patches of. `first_query`:
/// the words that ask the server for one map of each model, which is shown before all others come;
/// may be empty. `samples`: names of pictures that the server has below samples/. Throws
/// Error(invalid_argument) for a colour map that does not exist.
std::string live_page(const ReportOptions& options,
                      const std::vector<std::vector<std::int64_t>>& patch_layers,
                      const std::map<std::string, std::string>& first_query,
                      const std::vector<std::string>& samples);

}  // namespace hydrascope::viz
