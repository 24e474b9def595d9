// Named architectures: timm's names for the DeiT and ViT families -> VitConfig and evaluation
// transform. tests/model/config/architectures_test.cpp compares every one of them with timm itself.
#pragma once

#include "model/config/config.h"
#include "model/image/transform_plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// The meaning of a name.
struct Architecture {
  VitConfig config;
  image::TransformConfig transform;  ///< for the configuration's size and patch
};

/// The architecture of a name of `architecture_names`, or of the same name with another size, patch
/// (8, 14, 16 or 32) or number of registers: `deit_{tiny,small,base}[_distilled]_patchP_S`,
/// `deit3_{small,medium,base,large,huge}_patchP_S`,
/// `vit_{tiny,small,base,large,huge,giant,gigantic}_patchP[_regR]_S`, S a multiple of P. Nothing
/// for every other name.
///
/// A suffix after a dot is timm's tag, which says how the weights were trained; a tag that changes
/// the transform stays in `config.arch`.
///
/// The values are timm's with one exception: pictures for `deit_*_224` are resized to 256 before
/// the crop of 224 (crop_pct 0.875), as DeiT's authors do for their published accuracies; timm
/// crops 0.9.
std::optional<Architecture> find_architecture(std::string_view name);

/// timm's names, shown by `models list`.
std::vector<std::string> architecture_names();

/// The form of all names that `find_architecture` takes, for hints.
std::string architecture_pattern();

/// A name that `find_architecture` takes for tensors of these shapes, for hints; "" if there is
/// none. It reads all fields of `shape` that tensors show; the number of heads is not among them.
std::string architecture_of_shape(const VitConfig& shape);

/// The number of attention heads, which no tensor shows, of all of timm's models of this width: one
/// for every 64 features. Nothing if timm's models differ from this rule, or if timm has none.
std::optional<std::int64_t> usual_num_heads(std::int64_t embed_dim, bool class_token);

}  // namespace hydrascope::model
