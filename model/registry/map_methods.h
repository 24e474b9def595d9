// The methods that say which tokens a prediction rests on, and the methods that a mechanism
// supports. Free of LibTorch: the command line enumerates them.
#pragma once

#include "model/config/config.h"
#include "model/registry/entry_table.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model::explain {

enum class Method { hydra, attention, rollout, grad_rollout, gradcam, attn_gradcam };

struct MethodEntry {
  Method method;
  std::string_view name;     ///< as `--method` spells it: "grad-rollout"
  std::string_view summary;  ///< one line for help and reports
  bool of_class;             ///< depends on the requested class
  bool is_signed;            ///< if the mechanism's map is positive; hydra is always signed
  bool by_head;              ///< heads have maps of their own
};
/// In the order of the contract of the command line.
const std::vector<MethodEntry>& methods();
inline const MethodEntry& entry_of(Method method) {
  return entry_in(methods(), &MethodEntry::method, method);
}
inline const MethodEntry* find_method_or_null(std::string_view name) {
  return find_in(methods(), name);
}

/// The treatment of a layer without an attention map in a rollout: leave it out, or take the
/// row-stochastic 1 + cos of its queries and keys.
enum class MaplessLayers { skip, cosine };

/// The reason why no layer of the model can be explained; empty if its tokens are all there, in one
/// stream.
std::string why_no_tokens(const VitConfig& config);

/// Empty if `method` can explain `layer` of such a model, else one sentence with the mechanism and
/// the reason ("hydra has no attention map: every feature has one of its own").
std::string why_not(const VitConfig& config, Method method, std::int64_t layer,
                    MaplessLayers mapless = MaplessLayers::skip);
/// The reason why a method that can explain `layer` cannot do so where layers remember earlier frames
/// (memories.h); empty if it can. The frame's part and the earlier frames' have to add up.
std::string why_not_remembering(const VitConfig& config, Method method, std::int64_t layer);
/// Throws Error(invalid_argument) with that reason; `where` quotes the user.
void require_remembering(const VitConfig& config, Method method, std::int64_t layer,
                         const std::string& where);
/// Throws Error(invalid_argument) with `why_not` and the methods that can; `where` quotes the user
/// ("`method` rollout").
void require_supported(const VitConfig& config, Method method, std::int64_t layer,
                       MaplessLayers mapless, const std::string& where);
/// Names of the supported methods, for hints.
std::vector<std::string_view> supported_methods(const VitConfig& config, std::int64_t layer,
                                                MaplessLayers mapless = MaplessLayers::skip);

/// "2, 4-11" for ascending layers.
std::string layer_ranges(const std::vector<std::int64_t>& layers);

}  // namespace hydrascope::model::explain
