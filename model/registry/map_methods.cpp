#include "model/registry/map_methods.h"

#include "kernels/error.h"
#include "model/registry/mechanisms.h"

namespace hydrascope::model::explain {

const std::vector<MethodEntry>& methods() {
  static const std::vector<MethodEntry> kEntries{
      {Method::hydra, "hydra",
       "the contribution of each token to the class's logit, with its sign, exact at the last "
       "layer",
       true, true, true},
      {Method::attention, "attention", "the class token's row of the attention map", false, false,
       true},
      {Method::rollout, "rollout", "attention maps multiplied through the layers", false, false,
       false},
      {Method::grad_rollout, "grad-rollout", "rollout of the maps weighted by the class's gradient",
       true, false, false},
      {Method::gradcam, "gradcam", "Grad-CAM of the tokens that enter a block's attention", true,
       false, false},
      {Method::attn_gradcam, "attn-gradcam",
       "relevance by gradient-weighted attention (Chefer et al.)", true, false, false},
  };
  return kEntries;
}

namespace {

const MechanismEntry& mechanism_of(const VitConfig& config, std::int64_t layer) {
  return find_mechanism(config.attention_of(layer).mechanism);
}

bool any_map_up_to(const VitConfig& config, std::int64_t layer) {
  for (std::int64_t l = 0; l <= layer; ++l)
    if (mechanism_of(config, l).rows_sum_to_one) return true;
  return false;
}

}  // namespace

std::string why_no_tokens(const VitConfig& config) {
  if (config.residual == Residual::reversible)
    return "the model's layers have two streams of tokens, and maps explain one";
  if (config.halting) return "the model's tokens leave at different layers, and maps need them all";
  return {};
}

std::string why_not(const VitConfig& config, Method method, std::int64_t layer,
                    MaplessLayers mapless) {
  if (std::string why = why_no_tokens(config); !why.empty()) return why;
  if (layer < 0 || layer >= config.depth)
    return "the model's layers are 0 to " + std::to_string(config.depth - 1) + ", not " +
           std::to_string(layer);
  if (method == Method::attention && !mechanism_of(config, layer).has_map)
    return mechanism_of(config, layer).name +
           " has no attention map: every feature has one of its own";
  if (method == Method::rollout && mapless == MaplessLayers::skip && !any_map_up_to(config, layer))
    return "no layer up to " + std::to_string(layer) +
           " has an attention map to roll out, whose rows sum to one (" +
           mechanism_of(config, layer).name + "); `mapless` cosine takes 1 + cos instead";
  return {};
}

std::string why_not_remembering(const VitConfig& config, Method method, std::int64_t layer) {
  if (config.global_pool != Pooling::token)
    return "the model pools its patches, and what each frame has of a map is known of a class "
           "token's row";
  if (method == Method::attention) return {};
  const std::string name(entry_of(method).name);
  if (method != Method::hydra)
    return name + " goes through several layers, each with frames of its own";
  if (layer != config.depth - 1)
    return name + " below the last layer goes through several layers, each with frames of its own";
  const MechanismOptions options(config.attention_of(layer));
  const auto norm = options.all().find("post_norm");
  if (norm != options.all().end() && norm->second == "on")
    return "behind `post_norm` the frames' contributions do not add up";
  return {};
}

void require_remembering(const VitConfig& config, Method method, std::int64_t layer,
                         const std::string& where) {
  const std::string reason = why_not_remembering(config, method, layer);
  if (!reason.empty())
    throw Error(ErrorCode::invalid_argument, reason, where,
                "a memory's maps are attention, and hydra at the last layer, of a class token");
}

void require_supported(const VitConfig& config, Method method, std::int64_t layer,
                       MaplessLayers mapless, const std::string& where) {
  const std::string reason = why_not(config, method, layer, mapless);
  if (reason.empty()) return;
  std::string names;
  for (const std::string_view name : supported_methods(config, layer, mapless))
    names += (names.empty() ? "" : ", ") + std::string(name);
  throw Error(ErrorCode::invalid_argument, reason, where,
              names.empty() ? "" : "layer " + std::to_string(layer) + " supports " + names);
}

std::string layer_ranges(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(layers[i]);
    if (end > i + 1) text += "-" + std::to_string(layers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::string_view> supported_methods(const VitConfig& config, std::int64_t layer,
                                                MaplessLayers mapless) {
  std::vector<std::string_view> names;
  for (const MethodEntry& entry : methods())
    if (why_not(config, entry.method, layer, mapless).empty()) names.push_back(entry.name);
  return names;
}

}  // namespace hydrascope::model::explain
