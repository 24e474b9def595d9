// Mixed precision as torch.autocast gives it: products in a half type, sums and losses in float32.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

namespace hydrascope::model::training {

enum class Autocast : std::uint8_t { off, bfloat16 };

/// The type of the products: "float32", "bfloat16".
constexpr std::string_view name(Autocast autocast) {
  return autocast == Autocast::off ? "float32" : "bfloat16";
}

/// While it lives, this thread's operations on `device` are cast; weights are cast once per scope.
class AutocastScope {
 public:
  AutocastScope(Autocast autocast, c10::DeviceType device);
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope();

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  c10::ScalarType was_dtype_;
};

}  // namespace hydrascope::model::training
