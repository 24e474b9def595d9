// overlay.h on CUDA: the same equations, fields, numerics and preconditions, with all pointers on
// the device; both float32 kernels may differ in the last bit where the exact value is within 0.01
// of a half.
//
// Geometry (overlay_geometry.h): 256 threads, each with four groups of four pixels; the colours
//   wait in 1 KiB of shared memory. Rows that are aligned to 4 bytes are read and written in words
//   (12 bytes per thread), others byte by byte.
// Memory: 6 bytes per pixel; 1080p: 12.4 MB, some 100 operations per pixel, 64-bit positions among
//   them. No GPU has timed it. Deterministic: every pixel by itself. Nothing to draw: no launch.
//   Preconditions also: height * ceil(width / 4) below 2^31. Test:
//   tests/kernels/overlay/overlay_cuda_test.cpp; twin: overlay_reference.h.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/overlay/overlay.h"

namespace hydrascope::kernels::overlay::cuda {

void overlay(const OverlayParams& params, device::Stream stream);

}  // namespace hydrascope::kernels::overlay::cuda
