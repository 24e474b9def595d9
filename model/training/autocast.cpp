#include "model/training/autocast.h"

#include <ATen/autocast_mode.h>

namespace hydrascope::model::training {

AutocastScope::AutocastScope(Autocast autocast, c10::DeviceType device)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      was_dtype_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_enabled(device, autocast != Autocast::off);
  if (autocast != Autocast::off) at::autocast::set_autocast_dtype(device, at::kBFloat16);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  // The copies of the weights in the half type belong to the outermost scope.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, was_dtype_);
}

}  // namespace hydrascope::model::training
