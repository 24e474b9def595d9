// Kernels report with hydrascope::Error, PyTorch's callers expect c10::Error.
#pragma once

#include "kernels/error.h"

#include <c10/util/Exception.h>

namespace hydrascope::model::ops {

/// What `call` gives; an Error of the kernels leaves as the RuntimeError of operator `op`.
template <class Call>
auto with_kernel_errors(const char* op, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    TORCH_CHECK(false, "hydrascope::", op, ": ", error.what(), error.hint().empty() ? "" : "; ",
                error.hint());
  }
}

}  // namespace hydrascope::model::ops
