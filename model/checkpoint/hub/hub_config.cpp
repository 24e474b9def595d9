#include "model/checkpoint/hub/hub_config.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/json_fields.h"

#include <algorithm>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using model::VitConfig;

// The bounds of `model::validate`; here so that errors name the file and its key.
constexpr std::int64_t kMaxPixels = 1 << 17;
constexpr std::int64_t kMaxWidth = 1 << 15;
constexpr std::int64_t kMaxDepth = 1024;
constexpr std::int64_t kMaxClasses = 10'000'000;

[[noreturn]] void refuse_kind(const JsonFields& fields, const std::string& what) {
  throw Error(ErrorCode::unsupported_format, what, fields.subject());
}

void claim(HubConfig& config, const JsonFields& fields, const char* key,
           std::int64_t VitConfig::*field, std::int64_t most) {
  if (const auto value = fields.integer(key, 1, most))
    config.claims.push_back({key, field, *value});
}

/// An edge, or [height, width].
void read_img_size(HubConfig& config, const JsonFields& fields, const char* key) {
  if (const auto size = fields.integers(key, 2, 1, kMaxPixels, true)) {
    config.img_height = (*size)[0];
    config.img_width = (*size)[1];
  }
}

void claim_patch_size(HubConfig& config, const JsonFields& fields) {
  if (const auto size = fields.integers("patch_size", 2, 1, 1024, true)) {
    if ((*size)[0] != (*size)[1]) fields.refuse("patch_size", "a square");
    config.claims.push_back({"patch_size", &VitConfig::patch_size, size->front()});
  }
}

/// A line of a label file: no line breaks, never blank.
std::string as_label(std::string text, std::size_t index) {
  std::ranges::replace_if(
      text, [](char letter) { return letter >= 0 && letter < ' '; }, ' ');
  const bool blank = text.find_first_not_of(' ') == std::string::npos;
  return blank ? std::to_string(index) : text;
}

// ---- timm

void read_timm_labels(HubConfig& config, const JsonFields& fields) {
  const nlohmann::json* names = fields.find("label_names");
  if (names == nullptr) return;
  if (!names->is_array()) fields.refuse("label_names", "a list of strings");
  const nlohmann::json* described = fields.find("label_descriptions");
  for (const nlohmann::json& item : *names) {
    if (!item.is_string()) fields.refuse("label_names", "a list of strings");
    std::string line = item.get<std::string>();
    // ImageNet's names are synset ids; the words stand in the descriptions.
    if (described != nullptr && described->is_object()) {
      const auto found = described->find(line);
      if (found != described->end() && found->is_string() && !found->get<std::string>().empty())
        line += " " + found->get<std::string>();
    }
    config.labels.push_back(as_label(std::move(line), config.labels.size()));
  }
}

void read_pooling(HubConfig& config, const JsonFields& fields) {
  const auto word = fields.text("global_pool");
  if (!word) return;
  if (*word == "token") {
    config.global_pool = model::Pooling::token;
  } else if (*word == "avg") {
    config.global_pool = model::Pooling::avg;
  } else {
    fields.refuse("global_pool", "\"token\" or \"avg\"");
  }
}

/// Arguments of timm's VisionTransformer. Those that add or shape tensors show in the weights.
void read_model_args(HubConfig& config, const JsonFields& args) {
  for (const char* key : {"act_layer", "norm_layer", "mlp_layer", "block_fn", "attn_layer"}) {
    if (args.contains(key))
      refuse_kind(args, "model_args." + std::string(key) +
                            " changes what the model computes, "
                            "which this build does not know");
  }
  read_img_size(config, args, "img_size");
  read_pooling(config, args);
  if (const auto heads = args.integer("num_heads", 1, kMaxWidth)) config.num_heads = heads;
  if (const auto classes = args.integer("num_classes", 1, kMaxClasses))
    config.num_classes = classes;
  claim(config, args, "embed_dim", &VitConfig::embed_dim, kMaxWidth);
  claim(config, args, "depth", &VitConfig::depth, kMaxDepth);
  claim(config, args, "in_chans", &VitConfig::in_chans, 64);
  claim_patch_size(config, args);
}

void read_timm(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::timm;
  config.architecture = fields.text("architecture").value_or("");
  // Before timm 0.9 its fields stood among the others.
  const JsonFields pretrained = fields.object("pretrained_cfg").value_or(fields);
  config.transform = read_timm_transform(pretrained, origin);
  if (config.transform.origins.contains("img_size")) {
    config.img_height = config.transform.values.img_size.height;
    config.img_width = config.transform.values.img_size.width;
  }
  for (const JsonFields& level : {pretrained, fields}) {
    // 0: weights without a classifier.
    if (const auto classes = level.integer("num_classes", 0, kMaxClasses); classes.value_or(0) > 0)
      config.num_classes = classes;
    if (const auto license = level.text("license")) config.license = *license;
  }
  read_timm_labels(config, fields);
  read_pooling(config, fields);
  if (const auto args = fields.object("model_args")) read_model_args(config, *args);
}

// ---- Hugging Face

/// {"0": "tench", ...}: every class once. `LABEL_0`, which transformers writes for classes without
/// names, is no name.
void read_id2label(HubConfig& config, const JsonFields& fields) {
  const nlohmann::json* names = fields.find("id2label");
  if (names == nullptr) return;
  if (!names->is_object()) fields.refuse("id2label", "an object of class index and name");
  std::vector<std::string> labels(names->size());
  bool named = false;
  for (const auto& [key, value] : names->items()) {
    const std::size_t index = parse_number<std::size_t>(key).value_or(labels.size());
    // Equal numbers with different digits ("1", "01") would leave another class without a name.
    if (index >= labels.size() || std::to_string(index) != key)
      fields.fail("id2label", "expected the keys \"0\" to \"" + std::to_string(labels.size() - 1) +
                                  "\", found \"" + key.substr(0, 40) + "\"");
    if (!value.is_string()) fields.refuse("id2label", "strings as names");
    labels[index] = as_label(value.get<std::string>(), index);
    named = named || labels[index] != "LABEL_" + key;
  }
  config.num_classes = static_cast<std::int64_t>(labels.size());
  if (named) config.labels = std::move(labels);
}

void read_hugging_face(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::hugging_face;
  const std::string type = fields.text("model_type").value_or("vit");
  if (type != "vit" && type != "deit") {
    refuse_kind(fields, "model_type '" + type.substr(0, 60) + "': this build reads vit and deit");
  }
  if (const auto activation = fields.text("hidden_act"); activation && *activation != "gelu") {
    refuse_kind(fields, "hidden_act '" + activation->substr(0, 60) + "': this build has gelu");
  }
  claim(config, fields, "hidden_size", &VitConfig::embed_dim, kMaxWidth);
  claim(config, fields, "num_hidden_layers", &VitConfig::depth, kMaxDepth);
  claim(config, fields, "num_channels", &VitConfig::in_chans, 64);
  claim_patch_size(config, fields);
  read_img_size(config, fields, "image_size");
  config.num_heads = fields.integer("num_attention_heads", 1, kMaxWidth);
  config.layer_norm_eps = fields.number("layer_norm_eps");
  if (config.layer_norm_eps && !(*config.layer_norm_eps > 0 && *config.layer_norm_eps < 1))
    fields.refuse("layer_norm_eps", "a number between 0 and 1");
  read_id2label(config, fields);

  const fs::path file = config.file.parent_path() / "preprocessor_config.json";
  const auto preprocessor = load_json_object(file);
  const nlohmann::json nothing = nlohmann::json::object();
  constexpr std::int64_t kUsualSize = 224;  // of ViTConfig and DeiTConfig
  config.transform = read_preprocessor(
      JsonFields(preprocessor ? *preprocessor : nothing, file.string()), file.filename().string(),
      {type == "deit",
       {config.img_height.value_or(kUsualSize), config.img_width.value_or(kUsualSize)},
       "Hugging Face's defaults for " + type});
  if (!preprocessor) {
    config.notes.push_back("no preprocessor_config.json beside " + origin +
                           ": Hugging Face's defaults for " + type + " are assumed");
  }
}

}  // namespace

void HubConfig::apply_to(VitConfig& config) const {
  if (num_heads) config.num_heads = *num_heads;
  if (num_classes) config.num_classes = *num_classes;
  if (img_height) config.img_height = *img_height;
  if (img_width) config.img_width = *img_width;
  if (layer_norm_eps) config.layer_norm_eps = *layer_norm_eps;
  if (global_pool) config.global_pool = *global_pool;
}

void HubConfig::check(const VitConfig& config) const {
  for (const Claim& claim : claims) {
    if (config.*claim.field == claim.value) continue;
    throw Error(ErrorCode::invalid_argument,
                claim.key + " says " + std::to_string(claim.value) + ", the tensors show " +
                    std::to_string(config.*claim.field),
                file.string(), "does it belong to these weights?");
  }
  if (num_heads && config.embed_dim % *num_heads != 0) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(*num_heads) + " attention heads do not divide " +
                    std::to_string(config.embed_dim) + " features",
                file.string(), "does it belong to these weights?");
  }
}

std::vector<std::string> parse_label_names(std::string_view json, const std::string& subject) {
  // Named like timm's key, so that one reader does for both.
  const nlohmann::json object =
      parse_json_object("{\"label_names\":" + std::string(json) + "}", subject);
  HubConfig config;
  read_timm_labels(config, JsonFields(object, subject));
  return config.labels;
}

std::string to_label_names(const std::vector<std::string>& lines) {
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
