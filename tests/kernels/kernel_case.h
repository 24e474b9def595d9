// What all CPU kernel tests share: inputs, guarded outputs, comparison, and every instruction set
// of this machine in turn.
#pragma once

#include "kernels/device/matrix_instructions.h"
#include "kernels/vector/scalar_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hwy/highway.h>
#include <hwy/per_target.h>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {

/// Elements of T with `margin` sentinels before and behind: NaN in inputs (reading them poisons the
/// result), a pattern in outputs that `intact` looks for afterwards.
template <class T>
class Guarded {
 public:
  static constexpr std::size_t kMargin = 64;
  explicit Guarded(std::size_t count)
      : values_(count + 2 * kMargin, T(std::numeric_limits<float>::quiet_NaN())), count_(count) {}

  T* data() { return values_.data() + kMargin; }
  const T* data() const { return values_.data() + kMargin; }
  [[nodiscard]] std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + count_; }
  /// Whether all memory outside is still NaN.
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < kMargin; ++i) {
      if (!std::isnan(static_cast<float>(values_[i])) ||
          !std::isnan(static_cast<float>(values_[kMargin + count_ + i])))
        return false;
    }
    return true;
  }

 private:
  std::vector<T> values_;
  std::size_t count_;
};

enum class Fill { normal, ones, one_hot, ramp, large, zeros };
inline constexpr Fill kAllFills[] = {Fill::normal, Fill::ones,  Fill::one_hot,
                                     Fill::ramp,   Fill::large, Fill::zeros};

template <class Range>
void fill(Range&& values, Fill how, unsigned seed) {
  using T = std::remove_reference_t<decltype(*std::begin(values))>;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::size_t i = 0;
  for (T& value : values) {
    float x = 0;
    switch (how) {
      case Fill::normal: x = normal(random); break;
      case Fill::ones: x = 1; break;
      case Fill::one_hot: x = i == 3 ? 1.0F : 0.0F; break;
      case Fill::ramp: x = 0.01F * static_cast<float>(i % 257) - 1.0F; break;
      case Fill::large: x = 100 * normal(random); break;
      case Fill::zeros: break;
    }
    value = T(x);
    ++i;
  }
}

/// Fails, with coordinates and values, where |found - expected| exceeds
/// relative * (largest |expected|) + absolute, or is NaN. `columns` only shapes the message.
template <class T>
void expect_close(const T* found, std::span<const double> expected, double relative,
                  double absolute, std::size_t columns, const std::string& what) {
  double scale = 0;
  for (const double e : expected) scale = std::max(scale, std::abs(e));
  const double tolerance = relative * scale + absolute;
  std::size_t wrong = 0;
  std::size_t worst = 0;
  double worst_error = -1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(static_cast<float>(found[i])) - expected[i]);
    if (!(error <= tolerance)) ++wrong;
    if (!(error <= worst_error)) {
      worst_error = error;
      worst = i;
    }
  }
  EXPECT_EQ(wrong, 0U) << what << ": " << wrong << " of " << expected.size() << " outside "
                       << tolerance << "; worst at row " << worst / columns << ", column "
                       << worst % columns << ": found " << static_cast<float>(found[worst])
                       << ", expected " << expected[worst];
}

/// Relative tolerance of one rounding to T.
template <class T>
constexpr double rounding() {
  return sizeof(T) == 2 ? 1.0 / 256 : 1e-6;
}

/// Runs `body(name)` once for each instruction set that was compiled and this processor has, with
/// none of its matrix instructions, with those on vectors, and with all of them.
template <class Body>
void for_each_instruction_set(Body body) {
  using device::MatrixInstruction;
  struct Level {
    const char* name;
    MatrixInstruction instructions[2];
  };
  constexpr Level kLevels[] = {
      {"+matrix", {MatrixInstruction::avx512_bf16, MatrixInstruction::avx512_vnni}},
      {"+amx", {MatrixInstruction::amx_bf16, MatrixInstruction::amx_int8}}};
  const auto allow = [&](const Level& level, bool allowed) {
    bool any = false;
    for (const MatrixInstruction each : level.instructions) {
      device::allow_for_test(each, allowed);
      any = any || device::may_use(each);
    }
    return any;
  };
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const Level& level : kLevels) allow(level, false);
    body(std::string(hwy::TargetName(target)));
    for (const Level& level : kLevels) {
      if (target == HWY_AVX3 && allow(level, true))
        body(std::string(hwy::TargetName(target)) + level.name);
    }
  }
  for (const Level& level : kLevels) allow(level, true);
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace hydrascope::kernels::test
