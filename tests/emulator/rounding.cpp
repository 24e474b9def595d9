#include "tests/emulator/rounding.h"

#include "tests/emulator/block_emulator.h"

#include <bit>
#include <cfloat>
#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

bool as_gpu = [] {
  const char* rounding = std::getenv("HYDRASCOPE_EMULATED_ROUNDING");
  return rounding != nullptr && std::strcmp(rounding, "gpu") == 0;
}();

/// -1.5 to 1.5, the same for an argument of a function every time; with the rounding at most 2.
double error_of(float x, std::uint32_t function) {
  std::uint32_t hash = std::bit_cast<std::uint32_t>(x) ^ function * 0x9e3779b9U;
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return static_cast<int>((hash ^ hash >> 16) % 7) * 0.5 - 1.5;
}

/// 2^exponent, of a float32's.
double power(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}
/// The exponent of a float32, or of a product of two that is none of its subnormal numbers.
int exponent_of(double value) {
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ffU);
  return biased < 1023 - 126 ? -126 : biased - 1023;
}

/// An inexact form of `exact`, whose rounding is `value`. The value stays where a GPU is exact too: 0, infinity, NaN, and 1
/// of e^0 and 2^0.
float perturbed(float value, double exact, float x, std::uint32_t function,
                int least_exponent = -126) {
  if (!as_gpu || !std::isnormal(value) || x == 0) return value;
  const int exponent = exponent_of(value) < least_exponent ? least_exponent : exponent_of(value);
  return static_cast<float>(exact + error_of(x, function) * power(exponent - 23));
}

float four_products(float c, const float* a, const float* b, int b_stride) {
  constexpr int kAddends = 5;
  double addends[kAddends] = {c};
  double sum = c;
  double largest = std::fabs(c);
  for (int i = 1; i < kAddends; ++i) {
    addends[i] = static_cast<double>(a[i - 1]) * b[(i - 1) * b_stride];
    sum += addends[i];
    largest = std::fmax(largest, std::fabs(addends[i]));
  }
  if (!std::isfinite(sum) || largest > FLT_MAX) return static_cast<float>(sum);
  const int unit = exponent_of(largest) - 23;
  std::int64_t units = 0;
  for (const double addend : addends) units += static_cast<std::int64_t>(addend * power(-unit));
  const auto size = static_cast<std::uint64_t>(units < 0 ? -units : units);
  if (const int excess = static_cast<int>(std::bit_width(size)) - 24; excess > 0)
    units -= units % (1 << excess);
  return static_cast<float>(static_cast<double>(units) * power(unit));
}

}  // namespace

void round_as_gpu(bool on) { as_gpu = on; }
bool rounds_as_gpu() { return as_gpu; }

float sum_of_products(float c, const float* a, const float* b, int b_stride, int count) {
  for (int i = 0; i < count; i += 4) c = four_products(c, a + i, b + i * b_stride, b_stride);
  return c;
}

}  // namespace emulator

namespace hydrascope::kernels {

using emulator::perturbed;

float expf(float x) { return perturbed(std::exp(x), std::exp(double{x}), x, 1); }
float exp2f(float x) {
  const float value = perturbed(std::exp2(x), std::exp2(double{x}), x, 4);
  return emulator::as_gpu && value < FLT_MIN ? 0 : value;
}
float log2f(float x) { return perturbed(std::log2(x), std::log2(double{x}), x, 5, 0); }

}  // namespace hydrascope::kernels
