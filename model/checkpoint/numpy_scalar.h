// numpy scalars, as training scripts leave them in checkpoints ("metric": np.float64). Free of
// LibTorch.
#pragma once

#include "model/checkpoint/pickle_value.h"

#include <string_view>

namespace hydrascope::checkpoint::pickle {

/// A boolean, integer or number for the little-endian `bytes` of a scalar; Opaque for every dtype
/// that is none of these (text, dates, float16, big-endian) or has another size.
Value numpy_scalar(const NumpyType& type, std::string_view bytes);

}  // namespace hydrascope::checkpoint::pickle
