#pragma once

#include "kernels/error.h"

#include <c10/util/Exception.h>

namespace hydrascope::model::ops {

/// Returns the result of `call`; an Error of the program leaves as the RuntimeError of operator `op`
/// that PyTorch's callers expect.
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
