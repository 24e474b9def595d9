// All of timm's names: which of its models the network of this project computes, and why not the others. Tensors do not
// show it: blocks that normalise behind their branches have the tensors of blocks that normalise before.
#pragma once

#include "model/config/config.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace hydrascope::model {

/// A vision transformer of timm's that this project computes.
struct TimmModel {
  std::string_view name;
  std::int64_t embed_dim;
  std::int64_t patch_size;
  std::int64_t depth;
  // No tensor shows these.
  std::int64_t num_heads;
  double layer_norm_eps;
  Pooling global_pool;
};

/// nullptr when timm has no such model, or one that is not computed. A tag of timm's, behind a dot, is not looked at.
const TimmModel* find_timm_model(std::string_view name);

/// Why a model of that name is not computed: "has post-norm blocks, which this program does not compute", "is of timm's
/// swin_transformer, which is no plain vision transformer"; "" where nothing is known against it.
std::string why_not_computed(std::string_view name);

/// timm's present name, with its tag, for one that it has given up; other names as they are.
std::string_view present_name(std::string_view name);

}  // namespace hydrascope::model
