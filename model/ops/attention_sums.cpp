#include "model/ops/attention_sums.h"

#include <array>
#include <cstddef>

namespace hydrascope::model::ops {
namespace {

/// The passes as C++ calls them.
struct DirectPasses {
  [[nodiscard]] AttentionForward forward(const AttentionInputs& in, bool save) const {
    return sums->forward(in, save);
  }
  [[nodiscard]] AttentionBackward backward(const AttentionInputs& in,
                                           const AttentionSaved& saved) const {
    // Sums over tokens are constants here: a second derivative would silently be wrong.
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "attention by sums over tokens has no second derivative; Kernels::reference has");
    return sums->backward(in, saved);
  }
  [[nodiscard]] c10::IValue saved() const { return c10::IValue::make_capsule(sums); }
  static DirectPasses from(const c10::IValue& saved) {
    return {c10::static_intrusive_pointer_cast<AttentionSums>(saved.toCapsule())};
  }

  AttentionSumsPtr sums;
};

}  // namespace

at::Tensor attend(const AttentionInputs& in, const AttentionSumsPtr& sums) {
  sums->check(in);
  return attend_by(in, DirectPasses{sums});
}

DeviceKernels& kernels_of(at::DeviceType device) {
  static std::array<DeviceKernels, at::COMPILE_TIME_MAX_DEVICE_TYPES> kernels{};
  return kernels.at(static_cast<std::size_t>(device));
}

}  // namespace hydrascope::model::ops
