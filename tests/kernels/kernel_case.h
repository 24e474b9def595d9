// Common to all CPU kernel tests: inputs and comparison (fills.h), guarded outputs, and every
// instruction set of this machine in turn.
#pragma once

#include <hwy/highway.h>

#include "kernels/device/matrix_instructions.h"
#include "tests/kernels/fills.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <hwy/per_target.h>
#include <limits>
#include <string>
#include <utility>
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

/// Runs `body()` for each target that was compiled and this processor has: with none of its matrix
/// instructions, with each of them alone, and with all.
template <class Body>
void for_each_instruction_set(Body body) {
  using device::MatrixInstruction;
  constexpr std::pair<MatrixInstruction, const char*> kInstructions[] = {
      {MatrixInstruction::avx512_bf16, "+bf16"},
      {MatrixInstruction::avx512_vnni, "+vnni"},
      {MatrixInstruction::avx_vnni, "+vnni"},
      {MatrixInstruction::amx_bf16, "+amx_bf16"},
      {MatrixInstruction::amx_int8, "+amx_int8"}};
  const auto run = [&](std::int64_t target, const char* instructions) {
    SCOPED_TRACE(hwy::TargetName(target) + std::string(instructions));
    body();
  };
  std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  // Highway runs a single compiled set on every processor: NEON's also on those without the AES that it asks for.
  if (targets.empty()) targets.push_back(HWY_STATIC_TARGET);
  for (const std::int64_t target : targets) {
    device::set_target_for_test(target);
    for (const auto& [each, name] : kInstructions) device::allow_for_test(each, false);
    run(target, "");
    int usable = 0;
    for (const auto& [each, name] : kInstructions) {
      device::allow_for_test(each, true);
      if (device::may_use(each)) {
        ++usable;
        run(target, name);
      }
      device::allow_for_test(each, false);
    }
    for (const auto& [each, name] : kInstructions) device::allow_for_test(each, true);
    if (usable > 1) run(target, "+all");
  }
  device::set_target_for_test(0);
}

}  // namespace hydrascope::kernels::test
