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

/// The offers of a server to those who look at its page.
struct LiveOffer {
  std::vector<std::int64_t> patch_layers;  ///< those with rows of patches
  /// The words that ask for one map, which is shown before all others come; may be empty.
  std::map<std::string, std::string> first_query;
  std::vector<std::string> methods;        ///< of maps
  std::vector<std::string> usual_methods;  ///< those that come unless some are named
  /// A choice of another page of this server: GET /?name=value.
  struct Menu {
    std::string name;
    std::string title;
    std::vector<std::string> values;
    std::string value;
  };
  std::vector<Menu> menus;
  std::map<std::string, std::string>
      query;  ///< goes with every question: what of the menus was chosen
};

/// `options` are those of the report: title, facts, the models' names, what is chosen at first.
/// Throws Error(invalid_argument) for a colour map that does not exist.
std::string live_page(const ReportOptions& options, const LiveOffer& offer);

}  // namespace hydrascope::viz
