// Rows of csv and tsv.
#pragma once

#include "app/report.h"

#include <span>
#include <string>

namespace hydrascope::app {

/// One row with its line feed. csv quotes as RFC 4180 does (fields with comma, quote or line break,
/// and quotes doubled); tsv writes `\t`, `\n`, `\r`, `\\` for tab, line feed, carriage return,
/// backslash. Other bytes are kept, UTF-8 or not. `format` is csv or tsv.
std::string delimited_row(std::span<const std::string> fields, Format format);

}  // namespace hydrascope::app
