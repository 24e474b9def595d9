#include "model/config/architectures.h"

#include "kernels/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {
namespace architecture_table {

struct Width {
  std::int64_t embed_dim;
  std::int64_t depth;
  std::int64_t num_heads;
  double mlp_ratio = 4;
  bool swiglu_mlp = false;
};
constexpr double kEva02Ratio = 4.0 * 2 / 3;
constexpr Width kTiny{192, 12, 3};
constexpr Width kTinyEva02{192, 12, 3, kEva02Ratio, true};
constexpr Width kSmall{384, 12, 6};
constexpr Width kSmallEva02{384, 12, 6, kEva02Ratio, true};
constexpr Width kSmallPlus{384, 12, 6, 4, true};
constexpr Width kMedium{512, 12, 8};
constexpr Width kBase{768, 12, 12};
constexpr Width kBaseEva02{768, 12, 12, kEva02Ratio, true};
constexpr Width kLarge{1024, 24, 16};
constexpr Width kLargeEva02{1024, 24, 16, kEva02Ratio, true};
constexpr Width kHuge{1280, 32, 16};
constexpr Width kHugePlus{1280, 32, 20, 4, true};
constexpr Width kGiant{1408, 40, 16, 48.0 / 11};
constexpr Width kGiantDinoV2{1536, 40, 24, 4096.0 / 1536, true};
constexpr Width kGigantic{1664, 48, 16, 64.0 / 13};

using Triple = std::array<double, 3>;
struct Normalisation {
  Triple mean;
  Triple std;
};
constexpr Normalisation kImageNet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
constexpr Normalisation kHalf{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
constexpr Normalisation kClip{{0.48145466, 0.4578275, 0.40821073},
                              {0.26862954, 0.26130258, 0.27577711}};

constexpr Normalisation kSatellite{{0.43, 0.411, 0.296}, {0.213, 0.156, 0.143}};

/// The source of the patches' places: a table, or a rule of timm's Eva or VisionTransformerRelPos.
enum class Places {
  learned,
  rope,
  rope_ape,
  mixed,
  mixed_ape,
  dinov3,
  dinov3_qkvb,
  beit,
  eva02,
  eva02_scaled,
  relpos,
  relpos_cls,
  relpos_clsgap
};

struct Row {
  std::string_view name;
  Width width;
  std::int64_t patch_size;
  std::int64_t img_size;
  double crop_pct;
  Normalisation normalisation = kImageNet;
  std::int64_t reg_tokens = 0;
  Places places = Places::learned;
  image::CropMode crop_mode = image::CropMode::center;
};

/// In each family and width the first row stands for sizes and patches that are not listed.
constexpr Row kRows[] = {
    {"deit_tiny_patch16_224", kTiny, 16, 224, 0.875},
    {"deit_small_patch16_224", kSmall, 16, 224, 0.875},
    {"deit_base_patch16_224", kBase, 16, 224, 0.875},
    {"deit_base_patch16_384", kBase, 16, 384, 1.0},
    {"deit_tiny_distilled_patch16_224", kTiny, 16, 224, 0.875},
    {"deit_small_distilled_patch16_224", kSmall, 16, 224, 0.875},
    {"deit_base_distilled_patch16_224", kBase, 16, 224, 0.875},
    {"deit_base_distilled_patch16_384", kBase, 16, 384, 1.0},
    {"deit3_small_patch16_224", kSmall, 16, 224, 0.9},
    {"deit3_small_patch16_384", kSmall, 16, 384, 1.0},
    {"deit3_medium_patch16_224", kMedium, 16, 224, 0.9},
    {"deit3_base_patch16_224", kBase, 16, 224, 0.9},
    {"deit3_base_patch16_384", kBase, 16, 384, 1.0},
    {"deit3_large_patch16_224", kLarge, 16, 224, 0.9},
    {"deit3_large_patch16_384", kLarge, 16, 384, 1.0},
    {"deit3_huge_patch14_224", kHuge, 14, 224, 0.9},
    {"vit_tiny_patch16_224", kTiny, 16, 224, 0.9, kHalf},
    {"vit_tiny_patch16_384", kTiny, 16, 384, 1.0, kHalf},
    {"vit_small_patch16_224", kSmall, 16, 224, 0.9, kHalf},
    {"vit_small_patch16_384", kSmall, 16, 384, 1.0, kHalf},
    {"vit_small_patch32_224", kSmall, 32, 224, 0.9, kHalf},
    {"vit_small_patch32_384", kSmall, 32, 384, 1.0, kHalf},
    {"vit_small_patch8_224", kSmall, 8, 224, 0.9},
    {"vit_base_patch16_224", kBase, 16, 224, 0.9, kHalf},
    {"vit_base_patch16_384", kBase, 16, 384, 1.0, kHalf},
    {"vit_base_patch32_224", kBase, 32, 224, 0.9, kHalf},
    {"vit_base_patch32_384", kBase, 32, 384, 1.0, kHalf},
    {"vit_base_patch8_224", kBase, 8, 224, 0.9, kHalf},
    {"vit_large_patch16_224", kLarge, 16, 224, 0.9, kHalf},
    {"vit_large_patch16_384", kLarge, 16, 384, 1.0, kHalf},
    {"vit_large_patch32_224", kLarge, 32, 224, 0.9, kHalf},
    {"vit_large_patch32_384", kLarge, 32, 384, 1.0, kHalf},
    {"vit_large_patch14_224", kLarge, 14, 224, 0.9, kHalf},
    {"vit_huge_patch14_224", kHuge, 14, 224, 0.9, kHalf},
    {"vit_giant_patch14_224", kGiant, 14, 224, 0.9, kHalf},
    {"vit_gigantic_patch14_224", kGigantic, 14, 224, 0.9, kHalf},
    {"vit_small_patch14_dinov2", kSmall, 14, 518, 1.0},
    {"vit_small_patch14_reg4_dinov2", kSmall, 14, 518, 1.0, kImageNet, 4},
    {"vit_base_patch14_dinov2", kBase, 14, 518, 1.0},
    {"vit_base_patch14_reg4_dinov2", kBase, 14, 518, 1.0, kImageNet, 4},
    {"vit_large_patch14_dinov2", kLarge, 14, 518, 1.0},
    {"vit_large_patch14_reg4_dinov2", kLarge, 14, 518, 1.0, kImageNet, 4},
    {"vit_giant_patch14_dinov2", kGiantDinoV2, 14, 518, 1.0},
    {"vit_giant_patch14_reg4_dinov2", kGiantDinoV2, 14, 518, 1.0, kImageNet, 4},
    {"vit_small_patch16_rope_224", kSmall, 16, 224, 0.9, kImageNet, 0, Places::rope},
    {"vit_base_patch16_rope_224", kBase, 16, 224, 0.9, kImageNet, 0, Places::rope},
    {"vit_large_patch16_rope_224", kLarge, 16, 224, 0.9, kImageNet, 0, Places::rope},
    {"vit_small_patch16_rope_ape_224", kSmall, 16, 224, 0.9, kImageNet, 0, Places::rope_ape},
    {"vit_base_patch16_rope_ape_224", kBase, 16, 224, 0.9, kImageNet, 0, Places::rope_ape},
    {"vit_large_patch16_rope_ape_224", kLarge, 16, 224, 0.9, kImageNet, 0, Places::rope_ape},
    {"vit_small_patch16_rope_mixed_224", kSmall, 16, 224, 0.9, kImageNet, 0, Places::mixed},
    {"vit_base_patch16_rope_mixed_224", kBase, 16, 224, 0.9, kImageNet, 0, Places::mixed},
    {"vit_large_patch16_rope_mixed_224", kLarge, 16, 224, 0.9, kImageNet, 0, Places::mixed},
    {"vit_small_patch16_rope_mixed_ape_224", kSmall, 16, 224, 0.9, kImageNet, 0, Places::mixed_ape},
    {"vit_base_patch16_rope_mixed_ape_224", kBase, 16, 224, 0.9, kImageNet, 0, Places::mixed_ape},
    {"vit_large_patch16_rope_mixed_ape_224", kLarge, 16, 224, 0.9, kImageNet, 0, Places::mixed_ape},
    {"vit_small_patch16_dinov3", kSmall, 16, 256, 1.0, kImageNet, 4, Places::dinov3},
    {"vit_base_patch16_dinov3", kBase, 16, 256, 1.0, kImageNet, 4, Places::dinov3},
    {"vit_large_patch16_dinov3", kLarge, 16, 256, 1.0, kImageNet, 4, Places::dinov3},
    {"vit_small_patch16_dinov3_qkvb", kSmall, 16, 256, 1.0, kImageNet, 4, Places::dinov3_qkvb},
    {"vit_base_patch16_dinov3_qkvb", kBase, 16, 256, 1.0, kImageNet, 4, Places::dinov3_qkvb},
    {"vit_large_patch16_dinov3_qkvb", kLarge, 16, 256, 1.0, kImageNet, 4, Places::dinov3_qkvb},
    {"vit_small_plus_patch16_dinov3", kSmallPlus, 16, 256, 1.0, kImageNet, 4, Places::dinov3},
    {"vit_small_plus_patch16_dinov3_qkvb", kSmallPlus, 16, 256, 1.0, kImageNet, 4,
     Places::dinov3_qkvb},
    {"vit_huge_plus_patch16_dinov3", kHugePlus, 16, 256, 1.0, kImageNet, 4, Places::dinov3},
    {"vit_huge_plus_patch16_dinov3_qkvb", kHugePlus, 16, 256, 1.0, kImageNet, 4,
     Places::dinov3_qkvb},
    {"eva02_tiny_patch14_224", kTinyEva02, 14, 224, 0.9, kClip, 0, Places::eva02},
    {"eva02_small_patch14_224", kSmallEva02, 14, 224, 0.9, kClip, 0, Places::eva02},
    {"eva02_base_patch14_224", kBaseEva02, 14, 224, 0.9, kClip, 0, Places::eva02_scaled},
    {"eva02_large_patch14_224", kLargeEva02, 14, 224, 0.9, kClip, 0, Places::eva02_scaled},
    {"eva02_tiny_patch14_336", kTinyEva02, 14, 336, 1.0, kClip, 0, Places::eva02},
    {"eva02_small_patch14_336", kSmallEva02, 14, 336, 1.0, kClip, 0, Places::eva02},
    {"eva02_base_patch14_448", kBaseEva02, 14, 448, 1.0, kClip, 0, Places::eva02_scaled,
     image::CropMode::squash},
    {"eva02_large_patch14_448", kLargeEva02, 14, 448, 1.0, kClip, 0, Places::eva02_scaled,
     image::CropMode::squash},
    {"beit_base_patch16_224", kBase, 16, 224, 0.9, kHalf, 0, Places::beit},
    {"beit_base_patch16_384", kBase, 16, 384, 1.0, kHalf, 0, Places::beit},
    {"beit_large_patch16_224", kLarge, 16, 224, 0.9, kHalf, 0, Places::beit},
    {"beit_large_patch16_384", kLarge, 16, 384, 1.0, kHalf, 0, Places::beit},
    {"beit_large_patch16_512", kLarge, 16, 512, 1.0, kHalf, 0, Places::beit},
    {"beitv2_base_patch16_224", kBase, 16, 224, 0.9, kImageNet, 0, Places::beit},
    {"beitv2_large_patch16_224", kLarge, 16, 224, 0.95, kImageNet, 0, Places::beit},
    {"vit_relpos_small_patch16_224", kSmall, 16, 224, 0.9, kHalf, 0, Places::relpos},
    {"vit_relpos_medium_patch16_224", kMedium, 16, 224, 0.9, kHalf, 0, Places::relpos},
    {"vit_relpos_base_patch16_224", kBase, 16, 224, 0.9, kHalf, 0, Places::relpos},
    {"vit_relpos_medium_patch16_cls_224", kMedium, 16, 224, 0.9, kHalf, 0, Places::relpos_cls},
    {"vit_relpos_base_patch16_clsgap_224", kBase, 16, 224, 0.9, kHalf, 0, Places::relpos_clsgap},
};

/// A tag for weights that were trained with another transform than the row's.
struct Tag {
  std::string_view name;
  std::string_view tag;
  double crop_pct;
  Normalisation normalisation;
};
constexpr Tag kTags[] = {
    {"deit3_small_patch16_224", "fb_in22k_ft_in1k", 1.0, kImageNet},
    {"deit3_medium_patch16_224", "fb_in22k_ft_in1k", 1.0, kImageNet},
    {"deit3_base_patch16_224", "fb_in22k_ft_in1k", 1.0, kImageNet},
    {"deit3_large_patch16_224", "fb_in22k_ft_in1k", 1.0, kImageNet},
    {"deit3_huge_patch14_224", "fb_in22k_ft_in1k", 1.0, kImageNet},
    {"vit_small_patch16_224", "dino", 0.9, kImageNet},
    {"vit_base_patch16_224", "dino", 0.9, kImageNet},
    {"vit_base_patch8_224", "dino", 0.9, kImageNet},
    {"vit_base_patch16_224", "mae", 0.9, kImageNet},
    {"vit_large_patch16_224", "mae", 0.9, kImageNet},
    {"vit_huge_patch14_224", "mae", 0.9, kImageNet},
    {"vit_base_patch16_224", "bamboo", 1.0, kClip},
    {"vit_large_patch16_dinov3", "sat493m", 1.0, kSatellite},
    {"vit_large_patch16_dinov3_qkvb", "sat493m", 1.0, kSatellite},
    {"beitv2_large_patch16_224", "in1k_ft_in22k", 0.9, kImageNet},
    {"eva02_base_patch14_448", "mim_in22k_ft_in1k", 1.0, kClip},
    {"eva02_large_patch14_448", "mim_in22k_ft_in1k", 1.0, kClip},
    {"eva02_large_patch14_448", "mim_m38m_ft_in1k", 1.0, kClip},
};

constexpr std::array<std::int64_t, 4> kPatches{8, 14, 16, 32};
constexpr std::string_view kDinoV2 = "_dinov2";
constexpr std::string_view kPatch = "_patch";
constexpr std::string_view kDistilled = "_distilled";

/// Cuts the number off that `text` begins with; nothing if it begins with none.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || value < 1) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// "vit_base" of "vit_base_patch16_224".
std::string_view stem(std::string_view name) { return name.substr(0, name.find(kPatch)); }

/// A row for `stem`_patchP[_regR]_S, from the one that is nearest to it.
std::optional<Row> parse(std::string_view name) {
  std::string_view rest = name;
  if (!take(rest, stem(name)) || !take(rest, kPatch)) return std::nullopt;
  const auto patch = take_number(rest);
  if (!patch || std::ranges::find(kPatches, *patch) == kPatches.end()) return std::nullopt;
  std::int64_t registers = 0;
  if (name.starts_with("vit_") && take(rest, "_reg")) {
    const auto number = take_number(rest);
    if (!number) return std::nullopt;
    registers = *number;
  }
  if (!take(rest, "_")) return std::nullopt;
  const auto size = take_number(rest);
  if (!size || !rest.empty() || *size % *patch != 0) return std::nullopt;
  const Row* nearest = nullptr;
  for (const Row& row : kRows) {
    if (stem(row.name) != stem(name) || row.name.ends_with(kDinoV2)) continue;
    if (row.places != Places::learned) continue;
    if (nearest == nullptr || (nearest->img_size != *size && row.img_size == *size)) nearest = &row;
  }
  if (nearest == nullptr) return std::nullopt;
  Row row = *nearest;
  row.name = name;
  row.patch_size = *patch;
  row.img_size = *size;
  row.reg_tokens = registers;
  return row;
}

/// Sets what depends on the places: the rule and its table.
void apply(Places places, VitConfig& config) {
  if (places == Places::learned) return;
  const auto all = [&](std::string rule, std::map<std::string, std::string> options) {
    config.rel_pos.assign(static_cast<std::size_t>(config.depth), {std::move(rule), options});
  };
  const bool has_table = places == Places::rope_ape || places == Places::mixed_ape;
  config.pos_embed = has_table ? PosEmbed::learned : PosEmbed::none;
  config.no_embed_class = has_table;
  config.layer_scale = true;
  if (places == Places::rope || places == Places::rope_ape) {
    all("rope", {});
  } else if (places == Places::mixed || places == Places::mixed_ape) {
    all("rope", {{"variant", "mixed"}, {"base", "10"}});
  } else if (places == Places::dinov3 || places == Places::dinov3_qkvb) {
    all("rope", {{"order", "ij"}, {"layout", "half"}, {"coords", "unit"}});
    config.qkv_bias = places == Places::dinov3_qkvb;
    config.global_pool = Pooling::avg;
    config.layer_norm_eps = 1e-5;
  } else if (places == Places::beit) {
    all("relbias", {});
    config.global_pool = Pooling::avg;
    config.fc_norm = true;
  } else if (places == Places::eva02 || places == Places::eva02_scaled) {
    // Every size counts 16 x 16 patches.
    const double scale = 16.0 / static_cast<double>(config.grid_rows());
    all("rope", {{"base", "10000"}, {"order", "ij"}, {"coords", "train"}});
    if (scale != 1) {
      for (PositionSpec& layer : config.rel_pos) layer.options["scale"] = shortest_number(scale);
    }
    config.scale_mlp = places == Places::eva02_scaled;
    config.pos_embed = PosEmbed::learned;
    config.layer_scale = false;
    config.global_pool = Pooling::avg;
    config.fc_norm = true;
  } else {
    const bool is_narrow = places != Places::relpos_cls;
    all("relbias", {{"table", "mlp"}, {"hidden", is_narrow ? "128" : "256"}});
    config.init_values = 1e-6;
    config.qkv_bias = false;
    config.class_token = places != Places::relpos;
    config.fc_norm = places != Places::relpos_cls;
    config.global_pool = config.fc_norm ? Pooling::avg : Pooling::token;
  }
}

Architecture architecture(const Row& row) {
  Architecture result;
  VitConfig& config = result.config;
  config.arch = std::string(row.name);
  config.img_height = config.img_width = row.img_size;
  config.patch_size = row.patch_size;
  config.embed_dim = row.width.embed_dim;
  config.depth = row.width.depth;
  config.num_heads = row.width.num_heads;
  config.mlp_ratio = row.width.mlp_ratio;
  config.swiglu_mlp = row.width.swiglu_mlp;
  config.distilled = stem(row.name).ends_with(kDistilled);
  config.reg_tokens = row.reg_tokens;
  const bool is_deit3 = row.name.starts_with("deit3_");
  config.no_embed_class = is_deit3 || row.reg_tokens > 0;
  config.layer_scale = is_deit3 || row.name.ends_with(kDinoV2);
  if (is_deit3) config.init_values = 1e-6;
  apply(row.places, config);
  image::TransformConfig& transform = result.transform;
  transform.img_size = {row.img_size, row.img_size};
  transform.patch_size = row.patch_size;
  transform.crop_pct = row.crop_pct;
  transform.crop_mode = row.crop_mode;
  transform.mean = row.normalisation.mean;
  transform.std = row.normalisation.std;
  return result;
}

}  // namespace architecture_table
}  // namespace

std::optional<Architecture> find_architecture(std::string_view name) {
  using namespace architecture_table;
  const std::string_view full = name;
  name = name.substr(0, name.find('.'));
  const auto* const listed = std::ranges::find(kRows, name, &Row::name);
  const std::optional<Row> row = listed != std::end(kRows) ? *listed : parse(name);
  if (!row) return std::nullopt;
  Architecture result = architecture(*row);
  for (const Tag& each : kTags) {
    if (each.name != name || !full.ends_with(each.tag)) continue;
    if (full.size() != name.size() + 1 + each.tag.size()) continue;
    result.config.arch = std::string(full);
    result.transform.crop_pct = each.crop_pct;
    result.transform.crop_mode = image::CropMode::center;
    result.transform.mean = each.normalisation.mean;
    result.transform.std = each.normalisation.std;
  }
  return result;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const auto& row : architecture_table::kRows) names.emplace_back(row.name);
  return names;
}

std::string architecture_pattern() {
  return "{deit|deit3|vit}_{tiny|small|medium|base|large|huge|giant|gigantic}[_distilled]"
         "_patch{8|14|16|32}[_regN]_SIZE";
}

std::string architecture_of_shape(const VitConfig& shape) {
  using namespace architecture_table;
  for (const Row& row : kRows) {
    VitConfig config = architecture(row).config;
    std::string name(row.name);
    if (shape.img_height != row.img_size || shape.patch_size != row.patch_size ||
        shape.reg_tokens != row.reg_tokens) {
      name = std::string(stem(row.name)) + std::string(kPatch) + std::to_string(shape.patch_size) +
             (shape.reg_tokens > 0 ? "_reg" + std::to_string(shape.reg_tokens) : "") + "_" +
             std::to_string(shape.img_height);
      const auto other = find_architecture(name);
      if (!other) continue;
      config = other->config;
    }
    const auto same = [&](auto VitConfig::*field) { return config.*field == shape.*field; };
    if (same(&VitConfig::embed_dim) && same(&VitConfig::depth) && same(&VitConfig::mlp_ratio) &&
        same(&VitConfig::swiglu_mlp) && same(&VitConfig::scale_mlp) &&
        same(&VitConfig::class_token) && same(&VitConfig::img_width) &&
        same(&VitConfig::distilled) && same(&VitConfig::no_embed_class) &&
        same(&VitConfig::layer_scale) && same(&VitConfig::pos_embed) &&
        same(&VitConfig::qkv_bias) && same(&VitConfig::rel_pos))
      return name;
  }
  return "";
}

std::optional<std::int64_t> usual_num_heads(std::int64_t embed_dim, bool class_token) {
  constexpr std::int64_t kHeadDim = 64;
  constexpr std::array<std::int64_t, 10> kWidths{192, 256, 320, 384, 512, 640, 768, 832, 896, 1024};
  if (std::ranges::find(kWidths, embed_dim) == kWidths.end()) return std::nullopt;
  // vit_base_patch16_gap_224 has 16 heads, its sisters 12.
  if (embed_dim == 768 && !class_token) return std::nullopt;
  return embed_dim / kHeadDim;
}

}  // namespace hydrascope::model
