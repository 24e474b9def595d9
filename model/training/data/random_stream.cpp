#include "model/training/data/random_stream.h"

#include <cmath>
#include <numbers>

namespace hydrascope::model::training {
namespace {

constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, odd

/// SplitMix64's output function; a bijection.
std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

RandomStream::RandomStream(std::initializer_list<std::uint64_t> parts) noexcept : state_(0) {
  for (const std::uint64_t part : parts) state_ = mix((state_ + kIncrement) ^ part);
}

RandomStream::result_type RandomStream::operator()() noexcept { return mix(state_ += kIncrement); }

double RandomStream::uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

std::uint64_t RandomStream::below(std::uint64_t count) noexcept {
  // 2^64 modulo count: without these numbers every remainder is equally likely.
  const std::uint64_t surplus = (0 - count) % count;
  std::uint64_t number = (*this)();
  while (number < surplus) number = (*this)();
  return number % count;
}

double RandomStream::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double RandomStream::gamma(double shape) noexcept {
  // Their method needs a shape of at least 1; gamma(a) = gamma(a + 1) U^(1 / a).
  if (shape < 1.0) {
    const double larger = gamma(shape + 1.0);
    return larger * std::pow(1.0 - uniform(), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double RandomStream::beta(double a, double b) noexcept {
  const double x = gamma(a);
  const double y = gamma(b);
  // Both vanish only for shapes far below 0.01, whose beta is 0 or 1.
  return x + y > 0.0 ? x / (x + y) : static_cast<double>(chance(a / (a + b)));
}

}  // namespace hydrascope::model::training
