// The last error of a thread, for the C functions of libhydrascope.so.
#pragma once

#include "app/run/console.h"
#include "kernels/error.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <initializer_list>
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
  } catch (...) {
    remember(as_error(std::current_exception()));
    return false;
  }
}

/// Whether none of the pointers is null; every function of the library asks it about those that it is given.
inline bool are_given(std::initializer_list<const void*> pointers) noexcept {
  return succeeds([&] {
    const auto* const found = std::find(pointers.begin(), pointers.end(), nullptr);
    if (found != pointers.end())
      throw Error(ErrorCode::invalid_argument, "expected a pointer, found null",
                  "pointer " + std::to_string(found - pointers.begin() + 1) + " of the call");
  });
}

/// For `are_given`: a list may be null where it has no items, its words may not.
inline const void* list(const void* items, std::size_t count) { return count == 0 ? "" : items; }
inline const void* list(const char* const* words, std::size_t count) {
  const bool has_null = words != nullptr && std::count(words, words + count, nullptr) > 0;
  return has_null ? nullptr : list(static_cast<const void*>(words), count);
}

}  // namespace hydrascope::app
