// What is wrong with what the user asked for.
#pragma once

#include "kernels/error.h"

#include <source_location>
#include <string>
#include <utility>

namespace hydrascope::app {

/// Error(invalid_argument), which ends the program with exit code 2.
struct UsageError : Error {
  explicit UsageError(const std::string& what, std::string subject = {}, std::string hint = {},
                      std::source_location where = std::source_location::current())
      : Error(ErrorCode::invalid_argument, what, std::move(subject), std::move(hint), where) {}
};

}  // namespace hydrascope::app
