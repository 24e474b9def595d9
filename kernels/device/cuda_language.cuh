// The CUDA language that device code is written in: the compiler's own, or, in builds that emulate
// blocks on the host, the same words from block_emulator.h (whose folder only those builds search).
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <block_emulator.h>
#endif
