// A report in a format, as text.
#pragma once

#include "app/results/report.h"

#include <sstream>
#include <string>

namespace hydrascope::testing {

inline std::string written(const app::Report& report, app::Format format) {
  std::ostringstream out;
  report.write(format, out);
  return out.str();
}

}  // namespace hydrascope::testing
