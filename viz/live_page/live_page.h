// The page of a server: a person drops a picture, the page asks its own server and shows what comes
// back in the views of the HTML report, and by a click what a patch attends to.
// Test: tests/app/serve/.
#pragma once

#include "viz/html_report/html_report.h"

#include <string>

namespace hydrascope::viz {

/// `options` are those of the report: title, facts, the models' names, what is chosen at first;
/// `shows_patches`: the server knows rows of patches. Throws Error(invalid_argument) for a colour map
/// that does not exist.
std::string live_page(const ReportOptions& options, bool shows_patches);

}  // namespace hydrascope::viz
