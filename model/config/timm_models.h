// All of timm's names: the models that this project's network computes, and the reasons against the
// others. Tensors do not tell: blocks that normalise behind their branches have the tensors of
// other blocks.
#pragma once

#include "model/config/config.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace hydrascope::model {

/// A vision transformer of timm's that this project computes.
struct TimmModel {
  std::string_view name;
  std::int64_t embed_dim = 0;
  std::int64_t patch_size = 0;
  std::int64_t depth = 0;
  // No tensor shows the fields below.
  std::int64_t num_heads = 0;
  double layer_norm_eps = 0;
  Pooling global_pool = Pooling::token;
  Activation act = Activation::gelu;
  bool final_norm = true;
  bool post_norm = false;
  std::int64_t pool_heads = 0;  ///< of attention pooling, if other than num_heads; else 0
  bool pool_prefix = false;
  std::string_view rotations = {};  ///< "": none, or find_architecture's
};

/// The rule of rotations of a model's layers, if the name alone says it; else an empty rule.
PositionSpec rotations_of(const TimmModel& model);

/// nullptr for a model that timm lacks or that is not computed. timm's tag, after a dot, is
/// ignored.
const TimmModel* find_timm_model(std::string_view name);

/// The reason why a model of that name is not computed: "has post-norm blocks, which this program
/// does not compute", "is of timm's swin_transformer, which is no plain vision transformer"; ""
/// without a reason.
std::string why_not_computed(std::string_view name);

/// timm's present name, with its tag, for a name that timm has given up; other names as they are.
std::string_view present_name(std::string_view name);

}  // namespace hydrascope::model
