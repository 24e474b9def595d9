// The last error of a thread, for the C functions of libhydrascope.so.
#pragma once

#include "app/results/json.h"
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

/// `work()`; false, 0 or null where it throws, or where one of the pointers that a function of the library is given is
/// null.
template <class Work>
auto guarded(std::initializer_list<const void*> pointers, const Work& work) noexcept
    -> decltype(work()) {
  try {
    const auto* const found = std::find(pointers.begin(), pointers.end(), nullptr);
    if (found != pointers.end())
      throw Error(ErrorCode::invalid_argument, "expected a pointer, found null",
                  "pointer " + std::to_string(found - pointers.begin() + 1) + " of the call");
    return work();
  } catch (...) {
    remember(as_error(std::current_exception()));
    return {};
  }
}

/// The JSON of `make()`, which lives until this thread's next call of that kind; null as `guarded`.
template <class Make>
const char* json_of(std::initializer_list<const void*> pointers, const Make& make) {
  return guarded(pointers, [&] {
    thread_local std::string text;
    text = json_text(make());
    return text.c_str();
  });
}

/// For `guarded`: a list may be null where it has no items, its words may not.
inline const void* list(const void* items, std::size_t count) { return count == 0 ? "" : items; }
inline const void* list(const char* const* words, std::size_t count) {
  const bool has_null = words != nullptr && std::count(words, words + count, nullptr) > 0;
  return has_null ? nullptr : list(static_cast<const void*>(words), count);
}

}  // namespace hydrascope::app
