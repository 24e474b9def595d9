// Images/s and memory against image size, one line per mechanism.
#pragma once

#include "app/benchmark/row.h"

#include <string>

namespace hydrascope::app {

/// A standalone SVG: two charts with logarithmic axes over the number of tokens. Rows that differ
/// in more than attention and size (batch, precision, device, ...) get lines of their own.
std::string chart_svg(const BenchmarkResult& result);

/// Throws Error(invalid_argument) for a file that `write_chart` would refuse: better before an hour
/// of measuring than after it.
void check_chart_file(const std::string& file);

/// Writes the SVG, or a page around it with header and table, by the extension of `file` (.svg,
/// .html). Throws Error(invalid_argument) for another.
void write_chart(const BenchmarkResult& result, const std::string& file);

}  // namespace hydrascope::app
