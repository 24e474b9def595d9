// Tables of an enumeration's values: the name of each value and other facts about it.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace hydrascope::model::explain {

/// The entry whose `member` is `value`; every value has one.
template <class Entry, class Value>
const Entry& entry_in(const std::vector<Entry>& entries, Value Entry::*member, Value value) {
  return *std::ranges::find(entries, value, member);
}

/// nullptr when no entry has that name.
template <class Entry>
const Entry* find_in(const std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace hydrascope::model::explain
