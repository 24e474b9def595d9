// What the C library does with memory that is given back. Free of LibTorch.
#pragma once

namespace hydrascope::app {

/// From now on blocks up to 32 MiB that are freed stay with the process and are used again. A step
/// of training frees and takes the same large tensors over and over; each would be mapped anew,
/// and its pages be cleared at their first touch, which costs a fifth of the step. Does nothing
/// where the C library is not glibc.
void keep_freed_memory() noexcept;

}  // namespace hydrascope::app
