// Switches autocast (mixed precision) for a while, for code that must not depend on its caller.
#pragma once

#include <ATen/autocast_mode.h>

namespace hydrascope::model {

struct AutocastState {
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;

  static AutocastState current(c10::DeviceType device) {
    return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
  }
};

/// While it lives, autocast of this thread is `state` and has no cache of cast weights: the cache
/// would give the copies of a run without gradients to a run with gradients.
class AutocastGuard {
 public:
  AutocastGuard(c10::DeviceType device, const AutocastState& state)
      : device_(device),
        before_(AutocastState::current(device)),
        cached_before_(at::autocast::is_autocast_cache_enabled()) {
    set(state, false);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard() { set(before_, cached_before_); }

 private:
  void set(const AutocastState& state, bool cached) const {
    at::autocast::set_autocast_enabled(device_, state.enabled);
    at::autocast::set_autocast_dtype(device_, state.dtype);
    at::autocast::set_autocast_cache_enabled(cached);
  }

  c10::DeviceType device_;
  AutocastState before_;
  bool cached_before_;
};

}  // namespace hydrascope::model
