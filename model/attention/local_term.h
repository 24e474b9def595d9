// A local term for mechanisms that hand every query sums over all tokens (local_convolution.h):
// option `local` of each mechanism whose entry goes through `with_local_term`.
#pragma once

#include "model/attention/registry.h"

namespace hydrascope::model {

/// The entry with the option `local=none|conv3|conv5|conv7` and its parameter `local.weight`, zeros
/// at first, so that a layer begins as it is without. The layer's map stays that of the mechanism;
/// contributions, which sum to the output, hold the local term too.
MechanismEntry with_local_term(MechanismEntry entry);

}  // namespace hydrascope::model
