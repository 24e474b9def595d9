// Which tensors the GPU's half of the operators is registered for: CUDA's, or the CPU's where the
// kernels run on the tests' block emulator.
#pragma once

#ifdef HYDRASCOPE_EMULATED
#define HYDRASCOPE_DEVICE_KEY CPU
#else
#define HYDRASCOPE_DEVICE_KEY CUDA
#endif
