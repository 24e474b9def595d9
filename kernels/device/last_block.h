// The steps of block.cuh's last_block in their order, apart from the machine that takes them, so that a
// test can try them on every machine that PTX allows (tests/kernels/device/last_block_test.cpp).
#pragma once

#ifdef __CUDACC__
#define HYDRASCOPE_LAST_BLOCK __device__ __forceinline__
#else
#define HYDRASCOPE_LAST_BLOCK
#endif

namespace hydrascope::kernels::device {

/// The steps of each thread of a block, ordered as in cooperative groups' grid sync. The barrier
/// hands the block's writes to the first thread. Its fence is cumulative (PTX ISA, "Causality
/// order") and so publishes them with its own writes. Its second fence and the barrier after it do
/// the same for later reads of the block. Two fences a block suffice, instead of two a thread.
template <class Machine>
HYDRASCOPE_LAST_BLOCK bool last_block_by(Machine& machine) {
  machine.barrier();
  if (machine.is_first_thread()) {
    machine.fence();
    machine.count();
    machine.fence();
  }
  machine.barrier();
  return machine.was_last();
}

}  // namespace hydrascope::kernels::device
