// The stream that device code runs on, as an opaque pointer: headers of kernels need no CUDA.
#pragma once

struct CUstream_st;

namespace hydrascope::kernels::device {

using Stream = CUstream_st*;  ///< cudaStream_t; null is the default stream

}  // namespace hydrascope::kernels::device
