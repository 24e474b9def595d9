// Named architectures: timm's names for the DeiT and ViT families -> VitConfig.
#pragma once

#include "model/config.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// What a name stands for; mean and std are those the family is trained with.
struct Architecture {
  VitConfig config;
  bool inception_mean_std = false;  ///< mean = std = 0.5 (ViT, augreg) instead of ImageNet's (DeiT)
  double crop_pct = 0.875;
};

/// `deit_{tiny,small,base}[_distilled]_patchP_S`, `deit3_{small,base,large}_patchP_S`,
/// `vit_{tiny,small,base,large}_patchP[_regR]_S` with P in 8, 14, 16, 32 and S any multiple of P; a
/// suffix after a dot (timm's tag) is ignored. Nothing when the name is not of that form.
std::optional<Architecture> find_architecture(std::string_view name);

/// The names shown by `models list`.
std::vector<std::string> architecture_names();

/// The form of all names that `find_architecture` takes, for hints.
std::string architecture_pattern();

}  // namespace hydrascope::model
