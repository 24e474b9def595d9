#include "model/checkpoint/key_map.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>

namespace hydrascope::checkpoint {
namespace {

bool is_timm(std::span<const std::string> keys) {
  return std::ranges::find(keys, "patch_embed.proj.weight") != keys.end();
}

/// timm and facebookresearch/deit: equal but for LayerScale (`gamma_1` there, `ls1.gamma` here).
std::optional<std::string> rename_timm(std::string_view key) {
  if (key.starts_with("pre_logits.")) return std::nullopt;
  for (const auto& [suffix, replacement] :
       {std::pair{".gamma_1", ".ls1.gamma"}, {".gamma_2", ".ls2.gamma"}}) {
    if (key.ends_with(suffix)) {
      return std::string(key.substr(0, key.size() - std::string_view(suffix).size())) + replacement;
    }
  }
  return std::string(key);
}

constexpr std::array kKeyMaps{
    KeyMap{"timm", is_timm, rename_timm},
};

}  // namespace

std::span<const KeyMap> key_maps() { return kKeyMaps; }

const KeyMap& detect_key_map(std::span<const std::string> keys, const std::string& subject) {
  for (const KeyMap& map : kKeyMaps) {
    if (map.matches(keys)) return map;
  }
  std::string known;
  for (const KeyMap& map : kKeyMaps) known += (known.empty() ? "" : ", ") + std::string(map.name);
  std::string shown;
  for (const std::string& key : keys.first(std::min<std::size_t>(keys.size(), 3))) {
    shown += (shown.empty() ? "" : ", ") + key;
  }
  throw Error(ErrorCode::unsupported_format,
              keys.empty()
                  ? "holds no tensors"
                  : "tensor names are not those of a known ViT layout (found " + shown + ", ...)",
              subject, "layouts this build reads: " + known);
}

}  // namespace hydrascope::checkpoint
