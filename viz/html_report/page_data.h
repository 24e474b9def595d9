// The data of the page's script: JSON inside of <script type="application/json">.
#pragma once

#include "viz/html_report/html_report.h"

#include <string>
#include <string_view>

namespace hydrascope::viz::page {

/// The data that the whole page shares: colour tables and what is chosen at first. Throws
/// Error(invalid_argument) for a colour map that does not exist.
std::string settings_json(const ReportOptions& options);

/// JSON as the text of a <script> element, the same JSON.
std::string script_text(std::string_view json);

}  // namespace hydrascope::viz::page
