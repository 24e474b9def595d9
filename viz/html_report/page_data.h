// What the page's script reads: JSON inside of <script type="application/json">, and maps.
#pragma once

#include "viz/html_report/html_report.h"

#include <string>

namespace hydrascope::viz::page {

/// What the whole page shares: colour tables and what is chosen at first. Throws
/// Error(invalid_argument) for a colour map that does not exist.
std::string settings_json(const ReportOptions& options);

/// What describes one picture: its classes, and of each model where its grid lies and what its maps
/// are, without their values. `thumbnail` is a URL. Throws Error(internal) for a map whose size is
/// not the grid's.
std::string about_json(const ReportPicture& picture, const std::string& thumbnail);

/// The maps' values, one model's after the other's, a line each: base64 of float32, little endian,
/// row-major.
std::string map_lines(const ReportPicture& picture);

}  // namespace hydrascope::viz::page
