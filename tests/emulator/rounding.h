// Arithmetic as a GPU rounds it, for tests that ask whether a kernel's tolerance stands it.
#pragma once

namespace emulator {

/// Whether functions of mathematics and products of tensor cores are the host's (the default), or as
/// inexact as a GPU's may be; HYDRASCOPE_EMULATED_ROUNDING=gpu in the environment begins with that.
void round_as_gpu(bool on);
bool rounds_as_gpu();

/// c + the products a[i] b[i], as coarse as tensor cores have been measured to be (Fasi et al. 2021,
/// "Numerical behavior of NVIDIA tensor cores"): in fours, whose addends and c lose what is below
/// the 24th bit of the largest; the sum is cut to float32.
float sum_of_products(float c, const float* a, const float* b, int b_stride, int count);

}  // namespace emulator
