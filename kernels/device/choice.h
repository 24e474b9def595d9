// From a number to the kernel that is compiled for it, by one list of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace hydrascope::kernels::device {

/// Calls run.operator()<each>() for the element of `choices` (a constexpr array) that equals
/// `value`. Returns whether there is one.
template <const auto& choices, class Run>
bool with_one_of(std::int64_t value, const Run& run) {
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return ((choices[i] == value && (run.template operator()<choices[i]>(), true)) || ...);
  }
  (std::make_index_sequence<std::size(choices)>());
}

}  // namespace hydrascope::kernels::device
