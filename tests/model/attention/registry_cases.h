// Test suites with a case for each entry of the registry.
#pragma once

#include "model/registry/mechanisms.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace hydrascope::model {
/// The parameter in a test's name; a pointer would differ from run to run.
inline void PrintTo(const MechanismEntry* entry, std::ostream* out) { *out << entry->name; }
}  // namespace hydrascope::model

namespace hydrascope::testing {

class RegistryCase : public ::testing::TestWithParam<const model::MechanismEntry*> {
 protected:
  [[nodiscard]] static const model::MechanismEntry& entry() { return *GetParam(); }
};

inline auto all_entries() { return ::testing::ValuesIn(model::mechanisms()); }

inline std::string entry_name(
    const ::testing::TestParamInfo<const model::MechanismEntry*>& parameter) {
  return parameter.param->name;
}

}  // namespace hydrascope::testing
