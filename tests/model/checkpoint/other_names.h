// Hugging Face's names, spelled out a second time and the other way round: modules' names -> file.
// The table under test is in key_map.cpp.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace hydrascope::testing {

enum class Names { timm, hugging_face_4, hugging_face_5 };

/// The other name of the tensor `name`; three names where q, k and v are stored apart.
inline std::vector<std::string> names_in_file(const std::string& name, Names names,
                                              const std::string& prefix) {
  if (names == Names::timm) return {prefix + name};
  const std::string leaf = name.substr(name.rfind('.') + 1);
  if (name == "cls_token") return {prefix + "embeddings.cls_token"};
  if (name == "dist_token") return {prefix + "embeddings.distillation_token"};
  if (name == "pos_embed") return {prefix + "embeddings.position_embeddings"};
  if (name.starts_with("patch_embed.proj."))
    return {prefix + "embeddings.patch_embeddings.projection." + leaf};
  if (name.starts_with("norm.")) return {prefix + "layernorm." + leaf};
  if (name.starts_with("head_dist.")) return {"distillation_classifier." + leaf};
  if (name.starts_with("blocks.")) {
    const std::size_t dot = name.find('.', 7);
    const std::string layer = name.substr(7, dot - 7);
    const std::string member = name.substr(dot + 1, name.rfind('.') - dot - 1);
    const bool is_4 = names == Names::hugging_face_4;
    const std::string block = prefix + (is_4 ? "encoder.layer." : "layers.") + layer + ".";
    const auto either = [&](const char* of_4, const char* of_5) {
      return std::vector<std::string>{block + (is_4 ? of_4 : of_5) + "." + leaf};
    };
    if (member == "norm1") return either("layernorm_before", "layernorm_before");
    if (member == "norm2") return either("layernorm_after", "layernorm_after");
    if (member == "attn.proj") return either("attention.output.dense", "attention.o_proj");
    if (member == "mlp.fc1") return either("intermediate.dense", "mlp.fc1");
    if (member == "mlp.fc2") return either("output.dense", "mlp.fc2");
    if (member == "attn.qkv") {
      const std::vector<std::string> parts =
          is_4 ? std::vector<std::string>{"attention.query", "attention.key", "attention.value"}
               : std::vector<std::string>{"q_proj", "k_proj", "v_proj"};
      std::vector<std::string> result;
      for (const std::string& part : parts)
        result.push_back(block + "attention." + part + "." + leaf);
      return result;
    }
  }
  throw std::invalid_argument("Hugging Face has no name for " + name);
}

/// The classifier's name depends on whether there is a second one.
inline std::string head_name(const std::string& name, Names names, bool distilled) {
  if (names == Names::timm || !name.starts_with("head.")) return name;
  return (distilled ? "cls_classifier." : "classifier.") + name.substr(5);
}

}  // namespace hydrascope::testing
