#include "model/config/timm_models.h"

#include <algorithm>
#include <iterator>

namespace hydrascope::model {
namespace {

enum class TimmRow { computed, lacks, former, family };

struct TimmEntry {
  TimmRow kind;
  TimmModel model;
  std::string_view text = {};
};

constexpr TimmEntry kTimmEntries[] = {
#define COMPUTED(name, dim, patch, depth, heads, eps, pool, act, final_norm, post_norm,         \
                 pool_heads, pool_prefix, rotations)                                            \
  {TimmRow::computed,                                                                           \
   {name, dim, patch, depth, heads, eps, Pooling::pool, Activation::act, final_norm, post_norm, \
    pool_heads, pool_prefix, rotations}},
#define LACKS(name, parts) {TimmRow::lacks, {name}, parts},
#define FORMER(name, present) {TimmRow::former, {name}, present},
#define FAMILY(name, prefixes) {TimmRow::family, {name}, prefixes},
#include "model/config/timm_models.inc"
#undef COMPUTED
#undef LACKS
#undef FORMER
#undef FAMILY
};

std::string_view without_tag(std::string_view name) { return name.substr(0, name.find('.')); }

const TimmEntry* find_entry(TimmRow kind, std::string_view name) {
  const auto* const found = std::ranges::find_if(kTimmEntries, [&](const TimmEntry& entry) {
    return entry.kind == kind && entry.model.name == name;
  });
  return found == std::end(kTimmEntries) ? nullptr : found;
}

}  // namespace

const TimmModel* find_timm_model(std::string_view name) {
  const TimmEntry* const found = find_entry(TimmRow::computed, without_tag(present_name(name)));
  return found == nullptr ? nullptr : &found->model;
}

PositionSpec rotations_of(const TimmModel& model) {
  if (model.rotations.empty()) return {};
  if (model.rotations == "dinov3")
    return {"rope", {{"order", "ij"}, {"layout", "half"}, {"coords", "unit"}}};
  if (model.rotations == "eva02")
    return {"rope", {{"base", "10000"}, {"order", "ij"}, {"coords", "train"}}};
  // Perception Encoder (arXiv 2504.13181) counts from 1 behind a class token.
  return {
      "rope",
      {{"base", "10000"}, {"coords", "train"}, {"offset", model.rotations == "pe" ? "1" : "0"}}};
}

std::string why_not_computed(std::string_view name) {
  name = without_tag(present_name(name));
  if (const TimmEntry* lacking = find_entry(TimmRow::lacks, name))
    return "has " + std::string(lacking->text) + ", which this program does not compute";
  if (find_timm_model(name) != nullptr) return "";
  for (const auto& [kind, family, prefixes] : kTimmEntries) {
    if (kind != TimmRow::family) continue;
    std::string_view rest = prefixes;
    while (!rest.empty()) {
      const std::string_view prefix = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), prefix.size() + 1));
      if (name.starts_with(prefix))
        return "is of timm's " + std::string(family.name) +
               ", which is no plain vision transformer";
    }
  }
  return "";
}

std::string_view present_name(std::string_view name) {
  const TimmEntry* const former = find_entry(TimmRow::former, without_tag(name));
  return former == nullptr ? name : former->text;
}

}  // namespace hydrascope::model
