// The allow-list: every function and class that a pickle may name.
#pragma once

#include "model/checkpoint/formats/torch/pickle_value.h"

#include <string>
#include <string_view>

namespace hydrascope::checkpoint::pickle {

/// nullptr for what is not on the list. `module` and `name` as pickles of Python 2 and 3 spell
/// them.
const Global* find_global(std::string_view module, std::string_view name);

/// "os.system" for "posix" and "system": as a user of Python knows it, cut when long, in quotes
/// when it is no plain name.
std::string python_name(const Foreign& foreign);

/// Throws Error(unsupported_format): "refused to call os.system".
[[noreturn]] void refuse_call(const Foreign& function, const std::string& subject);

/// Throws Error(unsupported_format) for an object of a class, as whole pickled modules are.
[[noreturn]] void refuse_object(const Foreign& type, const std::string& subject);

}  // namespace hydrascope::checkpoint::pickle
