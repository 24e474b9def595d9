// An error in the user's request.
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
      : UsageError(ErrorCode::invalid_argument, what, std::move(subject), std::move(hint), where) {}

 protected:
  UsageError(ErrorCode code, const std::string& what, std::string subject, std::string hint,
             std::source_location where)
      : Error(code, what, std::move(subject), std::move(hint), where) {}
};

/// A file, folder or model that the user named and that is not there: Error(not_found), exit code 2.
struct NotFound : UsageError {
  explicit NotFound(const std::string& what, std::string subject = {}, std::string hint = {},
                    std::source_location where = std::source_location::current())
      : UsageError(ErrorCode::not_found, what, std::move(subject), std::move(hint), where) {}
};

}  // namespace hydrascope::app
