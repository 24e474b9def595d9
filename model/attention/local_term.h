// A local term for mechanisms that hand every query sums over all tokens: softmax attention within
// windows (mechanisms/sparse/window.cpp), whose prefix tokens see everything. Option `local` of each
// mechanism whose entry goes through `with_local_term`.
#pragma once

#include "model/registry/mechanisms.h"

namespace hydrascope::model {

/// The entry with the option `local=none|window7`. Windows read the mechanism's own queries and keys.
/// The layer's map stays the mechanism's map; `weighted_rows` hold the local term too.
MechanismEntry with_local_term(MechanismEntry entry);

}  // namespace hydrascope::model
