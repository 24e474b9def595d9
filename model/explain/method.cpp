#include "model/explain/method.h"

#include "model/attention/registry.h"

#include <algorithm>

namespace hydrascope::model::explain {

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> kEntries{
      {Method::hydra, "hydra",
       "what each token contributes to the class's logit, signed, exact at the last layer", true,
       true},
      {Method::attention, "attention", "the class token's row of the attention map", false, false},
      {Method::rollout, "rollout", "attention maps multiplied through the layers", false, false},
      {Method::grad_rollout, "grad-rollout", "rollout of the maps weighted by the class's gradient",
       true, false},
      {Method::gradcam, "gradcam", "Grad-CAM of the tokens that enter a block's attention", true,
       false},
      {Method::attn_gradcam, "attn-gradcam",
       "relevance by gradient-weighted attention (Chefer et al.)", true, false},
  };
  return kEntries;
}

const MethodEntry& entry_of(Method method) {
  return *std::ranges::find(methods(), method, &MethodEntry::method);
}

const MethodEntry* find_method_or_null(std::string_view name) {
  const auto found = std::ranges::find(methods(), name, &MethodEntry::name);
  return found == methods().end() ? nullptr : &*found;
}

}  // namespace hydrascope::model::explain
