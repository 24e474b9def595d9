// The allow-list: every function and class whose results are read, and the refused names.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

#include <string>
#include <string_view>

namespace hydrascope::checkpoint::pickle {

/// nullptr for a name outside the list. `module` and `name` are in Python 2's or 3's spelling.
const Global* find_global(std::string_view module, std::string_view name);

/// The verdict on a name that is not on the list.
Risk risk_of(std::string_view module, std::string_view name);

/// "os.system" for "posix" and "system": the name that Python's users know, cut when long, in
/// quotes when it is no plain name.
std::string python_name(const Foreign& foreign);

/// Throws Error(unsupported_format): "refused to call os.system".
[[noreturn]] void refuse_call(const Foreign& function, const std::string& subject);

}  // namespace hydrascope::checkpoint::pickle
