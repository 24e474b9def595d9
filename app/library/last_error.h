// The last error of a thread, for the C functions of libhydrascope.so.
#pragma once

#include "app/run/console.h"
#include "kernels/error.h"

#include <exception>
#include <new>
#include <string>

namespace hydrascope::app {

struct LastError {
  std::string code;
  std::string field;
  std::string subject;
  std::string text;
  std::string hint;
};

inline LastError& last_error() {
  thread_local LastError last;
  return last;
}

inline void remember(const Error& error) noexcept {
  try {
    last_error() = {std::string(name(error.code())), error.field(), error.subject(),
                    error_line(error), spelled(error.hint())};
  } catch (...) {  // no memory for the text
    last_error().code.clear();
  }
}

/// Whether `work` threw nothing.
template <class Work>
bool succeeds(const Work& work) noexcept {
  try {
    work();
    return true;
  } catch (const Error& error) {
    remember(error);
  } catch (const std::bad_alloc&) {
    remember(Error(ErrorCode::out_of_memory, "not enough memory"));
  } catch (const std::exception& error) {
    remember(Error(ErrorCode::internal, error.what(), "internal"));
  } catch (...) {
    remember(Error(ErrorCode::internal, "an unknown exception", "internal"));
  }
  return false;
}

}  // namespace hydrascope::app
