#include "model/checkpoint/hub/hub_config.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/hub/hub_fields.h"

#include <algorithm>
#include <utility>

namespace hydrascope::checkpoint {

namespace fs = std::filesystem;
using model::VitConfig;

void refuse_kind(const JsonFields& fields, const std::string& what) {
  throw Error(ErrorCode::unsupported_format, what, fields.subject());
}

void claim(HubConfig& config, const JsonFields& fields, const char* key,
           std::int64_t VitConfig::*field, std::int64_t most, std::int64_t least) {
  if (const auto value = fields.integer(key, least, most)) claim(config, key, field, *value);
}

void claim(HubConfig& config, std::string key, std::int64_t VitConfig::*field, std::int64_t value) {
  config.claims.push_back({std::move(key),
                           [field](const VitConfig& shown) { return std::to_string(shown.*field); },
                           std::to_string(value)});
}

void claim(HubConfig& config, const JsonFields& fields, const char* key, bool VitConfig::*field) {
  if (const auto value = fields.flag(key))
    config.claims.push_back({key,
                             [field](const VitConfig& shown) { return flag_text(shown.*field); },
                             flag_text(*value)});
}

void read_img_size(HubConfig& config, const JsonFields& fields, const char* key) {
  if (const auto size = fields.integers(key, 2, 1, kMaxPixels, true)) {
    config.img_height = (*size)[0];
    config.img_width = (*size)[1];
  }
}

void check_channels(const JsonFields& fields, std::optional<std::int64_t> channels) {
  if (!channels || *channels == 1 || *channels == 3) return;
  refuse_kind(fields, "the model takes " + std::to_string(*channels) +
                          " channels, pictures have 3, or 1 where they are grey");
}

void claim_patch_size(HubConfig& config, const JsonFields& fields) {
  if (const auto size = fields.integers("patch_size", 2, 1, 1024, true)) {
    if ((*size)[0] != (*size)[1]) fields.refuse("patch_size", "a square");
    claim(config, "patch_size", &VitConfig::patch_size, size->front());
  }
}

std::string as_label(std::string text, std::size_t index) {
  std::ranges::replace_if(
      text, [](char letter) { return letter >= 0 && letter < ' '; }, ' ');
  const bool blank = text.find_first_not_of(' ') == std::string::npos;
  return blank ? std::to_string(index) : text;
}

void HubConfig::apply_to(VitConfig& config) const {
  if (num_heads) config.num_heads = *num_heads;
  if (num_classes) config.num_classes = *num_classes;
  if (img_height) config.img_height = *img_height;
  if (img_width) config.img_width = *img_width;
  if (layer_norm_eps) config.layer_norm_eps = *layer_norm_eps;
  if (global_pool) config.global_pool = *global_pool;
  if (act) config.act = *act;
  if (final_norm) config.final_norm = *final_norm;
  if (post_norm) config.post_norm = *post_norm;
  const bool has_pool = config.global_pool == model::Pooling::map;
  config.pool_heads = has_pool ? pool_heads.value_or(0) : 0;
  config.pool_prefix = has_pool && pool_prefix.value_or(false);
}

void HubConfig::check(const VitConfig& config) const {
  const auto contradict = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what, file.string(),
                "does it belong to these weights?");
  };
  for (const Claim& claim : claims) {
    if (const std::string shown = claim.shown(config); shown != claim.value)
      contradict(claim.key + " says " + claim.value + ", the tensors show " + shown);
  }
  if (num_heads && config.embed_dim % *num_heads != 0)
    contradict(std::to_string(*num_heads) + " attention heads do not divide " +
               std::to_string(config.embed_dim) + " features");
  if (says_act && config.swiglu_mlp)
    contradict("model_args.act_layer says " + std::string(name(act.value_or(config.act))) +
               ", the tensors show gated MLPs, which have SiLU here");
  if (pool_prefix.value_or(false) && config.global_pool == model::Pooling::avg &&
      config.num_prefix_tokens() > 0) {
    throw Error(ErrorCode::unsupported_format,
                "pool_include_prefix with a mean: this program pools patches alone by their mean",
                file.string());
  }
  if (pads_pictures && img_height &&
      (*img_height % config.patch_size != 0 || *img_width % config.patch_size != 0)) {
    throw Error(ErrorCode::unsupported_format,
                "model_args.dynamic_img_pad with a size that patches of " +
                    std::to_string(config.patch_size) + " do not divide",
                file.string());
  }
}

void HubConfig::check_classes(std::int64_t rows) const {
  const auto differ = [&](const std::string& said, std::size_t classes) {
    throw Error(ErrorCode::invalid_argument,
                said + " says " + std::to_string(classes) + " classes, the classifier has " +
                    std::to_string(rows) + " rows",
                file.string(), "does it belong to these weights?");
  };
  if (num_classes && *num_classes != rows)
    differ(says_classes, static_cast<std::size_t>(*num_classes));
  if (!labels.empty() && std::cmp_not_equal(labels.size(), rows))
    differ(kind == Kind::timm ? "label_names" : "id2label", labels.size());
}

void HubConfig::check_is_known() const {
  if (!is_unknown) return;
  throw Error(
      ErrorCode::unsupported_format,
      "the architecture '" + architecture.substr(0, 80) +
          "' is not known, and tensors do not show the order of norms, the activation or the heads",
      file.string(),
      "say what computes the same: `model` NAME `checkpoint` FILE, or \"vit\" in its place for "
      "norms before "
      "attention and MLP, exact GELU and an eps of 1e-6");
}

std::vector<std::string> parse_label_names(std::string_view json, const std::string& subject) {
  // Named like timm's key, so that one reader serves both.
  const nlohmann::json object =
      parse_json_object("{\"label_names\":" + std::string(json) + "}", subject);
  HubConfig config;
  read_timm_labels(config, JsonFields(object, subject));
  return config.labels;
}

std::string to_label_names(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (find_bad_utf8(line) < line.size())
      throw Error(ErrorCode::invalid_argument,
                  "the name of a class is not UTF-8, which names in a model's file are", line);
  return nlohmann::json(lines).dump();
}

HubConfig read_hub_config(const fs::path& folder) {
  HubConfig config;
  config.file = folder / "config.json";
  const auto json = load_json_object(config.file);
  if (!json) return config;
  const JsonFields fields(*json, config.file.string());
  const std::string origin = config.file.filename().string();
  if (fields.contains("architecture")) {
    read_timm(config, fields, origin);
  } else if (fields.contains("model_type") || fields.contains("hidden_size")) {
    read_hugging_face(config, fields, origin);
  } else {
    config.notes.push_back(config.file.string() +
                           " describes no model of timm or Hugging Face: not used");
  }
  return config;
}

}  // namespace hydrascope::checkpoint
