#include "model/config/timm_models.h"

#include <algorithm>
#include <iterator>

namespace hydrascope::model {
namespace {

struct NameAndText {
  std::string_view name;
  std::string_view text;
};

constexpr TimmModel kComputed[] = {
#define COMPUTED(name, dim, patch, depth, heads, eps, pool, act, final_norm, post_norm,           \
                 pool_heads, pool_prefix, rotations)                                              \
  {name,       dim,       patch,      depth,       heads,    eps, Pooling::pool, Activation::act, \
   final_norm, post_norm, pool_heads, pool_prefix, rotations},
#define LACKS(name, parts)
#define FORMER(name, present)
#define FAMILY(name, prefixes)
#include "model/config/timm_models.inc"
#undef COMPUTED
#undef LACKS
};

constexpr NameAndText kLacking[] = {
#define COMPUTED(name, dim, patch, depth, heads, eps, pool, act, final_norm, post_norm, \
                 pool_heads, pool_prefix, rotations)
#define LACKS(name, parts) {name, parts},
#include "model/config/timm_models.inc"
#undef LACKS
#undef FORMER
};

constexpr NameAndText kFormer[] = {
#define LACKS(name, parts)
#define FORMER(name, present) {name, present},
#include "model/config/timm_models.inc"
#undef FORMER
#undef FAMILY
};

constexpr NameAndText kFamilies[] = {
#define FORMER(name, present)
#define FAMILY(name, prefixes) {name, prefixes},
#include "model/config/timm_models.inc"
#undef COMPUTED
#undef LACKS
#undef FORMER
#undef FAMILY
};

std::string_view without_tag(std::string_view name) { return name.substr(0, name.find('.')); }

template <class Row, std::size_t count>
const Row* find_row(const Row (&rows)[count], std::string_view name) {
  const Row* const found = std::ranges::find(rows, name, &Row::name);
  return found == std::end(rows) ? nullptr : found;
}

}  // namespace

const TimmModel* find_timm_model(std::string_view name) {
  return find_row(kComputed, without_tag(present_name(name)));
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
  if (const NameAndText* lacking = find_row(kLacking, name))
    return "has " + std::string(lacking->text) + ", which this program does not compute";
  if (find_timm_model(name) != nullptr) return "";
  for (const auto& [family, prefixes] : kFamilies) {
    std::string_view rest = prefixes;
    while (!rest.empty()) {
      const std::string_view prefix = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), prefix.size() + 1));
      if (name.starts_with(prefix))
        return "is of timm's " + std::string(family) + ", which is no plain vision transformer";
    }
  }
  return "";
}

std::string_view present_name(std::string_view name) {
  const NameAndText* const former = find_row(kFormer, without_tag(name));
  return former == nullptr ? name : former->text;
}

}  // namespace hydrascope::model
