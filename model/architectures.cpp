#include "model/architectures.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace hydrascope::model {
namespace {

struct Width {
  std::string_view name;
  std::int64_t embed_dim;
  std::int64_t depth;
  std::int64_t num_heads;
};
constexpr std::array kWidths{
    Width{"tiny", 192, 12, 3},
    Width{"small", 384, 12, 6},
    Width{"base", 768, 12, 12},
    Width{"large", 1024, 24, 16},
};
constexpr std::array<std::int64_t, 4> kPatches{8, 14, 16, 32};

std::optional<std::int64_t> number_after(std::string_view word, std::string_view prefix) {
  if (!word.starts_with(prefix)) return std::nullopt;
  word.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc{} || end != word.data() + word.size() || value < 1) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const auto bar = name.find('_');
    words.push_back(name.substr(0, bar));
    if (bar == std::string_view::npos) return words;
    name.remove_prefix(bar + 1);
  }
}

}  // namespace

std::optional<Architecture> find_architecture(std::string_view name) {
  name = name.substr(0, name.find('.'));
  const std::vector<std::string_view> words = split(name);
  if (words.size() < 4) return std::nullopt;
  const std::string_view family = words[0];
  if (family != "deit" && family != "deit3" && family != "vit") return std::nullopt;
  const auto width = std::ranges::find(kWidths, words[1], &Width::name);
  if (width == kWidths.end()) return std::nullopt;
  if (family == "deit" && width->name == "large") return std::nullopt;

  Architecture result;
  VitConfig& config = result.config;
  config.arch = std::string(name);
  config.embed_dim = width->embed_dim;
  config.depth = width->depth;
  config.num_heads = width->num_heads;
  std::size_t next = 2;
  if (family == "deit" && words[next] == "distilled") {
    config.distilled = true;
    ++next;
  }
  const auto patch = number_after(words[next++], "patch");
  if (!patch || std::ranges::find(kPatches, *patch) == kPatches.end()) return std::nullopt;
  config.patch_size = *patch;
  if (family == "vit" && next < words.size()) {
    if (const auto registers = number_after(words[next], "reg")) {
      config.reg_tokens = *registers;
      config.no_embed_class = true;
      ++next;
    }
  }
  if (next + 1 != words.size()) return std::nullopt;
  const auto size = number_after(words[next], "");
  if (!size || *size % *patch != 0) return std::nullopt;
  config.img_height = config.img_width = *size;
  if (family == "deit3") {
    config.no_embed_class = true;
    config.layer_scale = true;
    config.init_values = 1e-6;
  }
  if (family == "vit") {
    result.inception_mean_std = true;
    result.crop_pct = 0.9;
  }
  return result;
}

std::vector<std::string> architecture_names() {
  return {
      "deit_tiny_patch16_224",
      "deit_small_patch16_224",
      "deit_base_patch16_224",
      "deit_base_patch16_384",
      "deit_tiny_distilled_patch16_224",
      "deit_small_distilled_patch16_224",
      "deit_base_distilled_patch16_224",
      "deit_base_distilled_patch16_384",
      "deit3_small_patch16_224",
      "deit3_base_patch16_224",
      "deit3_large_patch16_224",
      "vit_tiny_patch16_224",
      "vit_small_patch16_224",
      "vit_small_patch32_224",
      "vit_base_patch8_224",
      "vit_base_patch16_224",
      "vit_base_patch16_384",
      "vit_base_patch32_224",
      "vit_large_patch14_224",
      "vit_large_patch16_224",
      "vit_large_patch16_384",
      "vit_base_patch14_reg4_518",
  };
}

std::string architecture_pattern() {
  return "{deit|deit3|vit}_{tiny|small|base|large}[_distilled]_patch{8|14|16|32}[_regN]_SIZE";
}

}  // namespace hydrascope::model
