#include "model/training/parameter_groups.h"

#include "kernels/error.h"
#include "model/checkpoint/hub/key_map.h"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>

namespace hydrascope::model::training {
namespace {

constexpr std::string_view kBlocks = "blocks.";

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
         ::fnmatch((pattern + ".*").c_str(), name.c_str(), 0) == 0;
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches(pattern, name); });
}

void require_matches(const std::vector<std::string>& patterns, const VisionTransformerImpl& model) {
  const auto parameters = model.named_parameters();
  for (const std::string& pattern : patterns) {
    if (std::ranges::none_of(parameters.keys(),
                             [&](const std::string& name) { return matches(pattern, name); })) {
      throw Error(
          ErrorCode::invalid_argument, "matches no parameter of the model", pattern,
          "names look like blocks.3.attn.qkv.weight; `hydrascope models info FILE` lists them");
    }
  }
}

std::int64_t layer_of(const std::string& name, std::int64_t depth) {
  if (name.starts_with(kBlocks)) return std::stoll(name.substr(kBlocks.size())) + 1;
  if (name.starts_with("norm.")) return depth;
  if (name.starts_with("head") || name.starts_with("fc_norm.") || name.starts_with("attn_pool.") ||
      name.starts_with("exits."))
    return depth + 1;
  return 0;
}

bool is_decayed(const std::string& name, const at::Tensor& parameter) {
  // Tables of positions, and parameters of rotations, are places and need not be small.
  const bool is_table =
      name.find(".attn.rel_pos") != std::string::npos || name.ends_with(".attn.rope.freqs");
  const bool is_embedding = name.ends_with("_token") || name.ends_with("pos_embed") || is_table;
  return parameter.dim() > 1 && !name.ends_with(".bias") && !is_embedding;
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(VisionTransformerImpl& model,
                                             const ParameterGroupOptions& options) {
  require_matches(options.train, model);
  require_matches(options.freeze, model);
  const std::int64_t depth = model.config().num_blocks();
  std::vector<ParameterGroup> groups;
  for (const auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    const bool trained = (options.train.empty() || matches_any(options.train, name)) &&
                         !matches_any(options.freeze, name);
    item.value().set_requires_grad(trained);
    if (!trained) continue;
    double scale =
        std::pow(options.layer_decay, static_cast<double>(depth + 1 - layer_of(name, depth)));
    if (checkpoint::is_mechanism_tensor(name)) scale *= options.mechanism_rate_scale;
    const double decay = is_decayed(name, item.value()) ? options.weight_decay : 0;
    auto group = std::ranges::find_if(groups, [&](const ParameterGroup& candidate) {
      return candidate.learning_rate_scale == scale && candidate.weight_decay == decay;
    });
    if (group == groups.end()) group = groups.insert(group, ParameterGroup{{}, scale, decay});
    group->parameters.emplace_back(name, item.value());
  }
  if (groups.empty()) {
    throw Error(ErrorCode::invalid_argument, "every parameter is frozen: nothing is left to train",
                model.config().arch);
  }
  return groups;
}

}  // namespace hydrascope::model::training
