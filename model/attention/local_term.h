// A local term for mechanisms that hand every query sums over all tokens: a convolution of the values
// (local_convolution.h), or softmax attention within windows (mechanisms/sparse/window.cpp), whose prefix
// tokens see everything. Option `local` of each mechanism whose entry goes through
// `with_local_term`.
#pragma once

#include "model/registry/mechanisms.h"

namespace hydrascope::model {

/// The entry with the option `local=none|conv3|conv5|conv7|window7`. A convolution's parameter
/// `local.weight` is zeros at first, so that a layer begins as it is without. Windows read the
/// mechanism's own queries and keys. The layer's map stays that of the mechanism; `weighted_rows`
/// hold the local term too.
MechanismEntry with_local_term(MechanismEntry entry);

}  // namespace hydrascope::model
