// The entries of one kind from static registrations: found by name or alias, listed by name.
#pragma once

#include "kernels/error.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::model {

/// `Entry` has `name` and `aliases`. Registrations run before main in an unspecified order, so a
/// catalogue is an object inside a function.
template <class Entry>
class Catalogue {
 public:
  /// `kind`: "position rule". `reserved`: a word of the kind that is no entry, or empty.
  explicit Catalogue(std::string kind, std::string_view reserved = {})
      : kind_(std::move(kind)), reserved_(reserved) {}

  /// Sorted by name.
  [[nodiscard]] const std::vector<const Entry*>& all() const { return sorted_; }
  [[nodiscard]] const Entry* find_or_null(std::string_view name_or_alias) const {
    const auto found = std::ranges::find_if(sorted_, [&](const Entry* entry) {
      return entry->name == name_or_alias ||
             std::ranges::find(entry->aliases, name_or_alias) != entry->aliases.end();
    });
    return found == sorted_.end() ? nullptr : *found;
  }
  /// Throws Error(invalid_argument) that lists what exists. `subject`: the field that names it.
  [[nodiscard]] const Entry& find(std::string_view name_or_alias,
                                  const std::string& subject) const {
    if (const Entry* entry = find_or_null(name_or_alias)) return *entry;
    std::string known(reserved_);
    for (const Entry* entry : sorted_) known += (known.empty() ? "" : ", ") + entry->name;
    throw Error(ErrorCode::invalid_argument,
                "unknown " + kind_ + " '" + std::string(name_or_alias) + "'", subject,
                "this build has: " + known);
  }
  /// Throws Error(internal) for a second entry of a name or alias.
  void add(Entry entry) {
    refuse_second(entry.name);
    for (const std::string& alias : entry.aliases) refuse_second(alias);
    entries_.push_back(std::make_unique<Entry>(std::move(entry)));
    sorted_.push_back(entries_.back().get());
    std::ranges::sort(sorted_, {}, &Entry::name);
  }

 private:
  void refuse_second(const std::string& name) const {
    if (name == reserved_ || find_or_null(name) != nullptr)
      throw Error(ErrorCode::internal, kind_ + " '" + name + "' is registered twice");
  }

  std::string kind_;
  std::string reserved_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<const Entry*> sorted_;
};

/// Static objects of this type fill a catalogue; a second entry of a name or alias stops the program's
/// start with Error(internal).
template <class Entry, Catalogue<Entry>& (*kCatalogue)()>
class Registration {
 public:
  explicit Registration(Entry entry) { kCatalogue().add(std::move(entry)); }
};

}  // namespace hydrascope::model
