// Options that are words in Python and enumerations in the kernels.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace hydrascope::model::ops {

/// The number of the choice called `name`; else an error that names operator and argument and lists
/// the choices.
template <class Enum>
std::int64_t choice_of(const char* op, const char* argument, std::string_view name,
                       std::initializer_list<std::pair<std::string_view, Enum>> choices) {
  std::string known;
  for (const auto& [word, value] : choices) {
    if (word == name) return static_cast<std::int64_t>(value);
    known.append(known.empty() ? "" : ", ").append(word);
  }
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is '", name, "', expected one of ",
              known);
}

}  // namespace hydrascope::model::ops
