#include "model/checkpoint/hub/hub_config.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"

#include <algorithm>
#include <span>
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
           std::int64_t VitConfig::*field, std::int64_t most, std::int64_t least = 1) {
  if (const auto value = fields.integer(key, least, most))
    config.claims.push_back({key, field, *value});
}

void claim_bias(HubConfig& config, const JsonFields& fields) {
  if (const auto value = fields.flag("qkv_bias"))
    config.claims.push_back({"qkv_bias", &VitConfig::qkv_bias, *value ? 1 : 0});
}

/// An edge, or [height, width].
void read_img_size(HubConfig& config, const JsonFields& fields, const char* key) {
  if (const auto size = fields.integers(key, 2, 1, kMaxPixels, true)) {
    config.img_height = (*size)[0];
    config.img_width = (*size)[1];
  }
}

/// Pictures have one channel or three; what stands beside another number, as a mean of each, is not looked at.
void check_channels(const JsonFields& fields, std::optional<std::int64_t> channels) {
  if (!channels || *channels == 1 || *channels == 3) return;
  refuse_kind(fields, "the model takes " + std::to_string(*channels) +
                          " channels, pictures have 3, or 1 where they are grey");
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
  if (!word || word->empty()) return;
  if (*word == "token") {
    config.global_pool = model::Pooling::token;
  } else if (*word == "avg") {
    config.global_pool = model::Pooling::avg;
  } else {
    fields.refuse("global_pool", "\"token\" or \"avg\"");
  }
}

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Arguments of timm's models that `read_model_args` reads, that add or shape tensors, or that matter in training alone.
constexpr std::string_view kKnownArguments[] = {
    "img_size", "patch_size", "in_chans", "num_classes", "global_pool", "embed_dim", "depth",
    "num_heads",
    // These show in the weights.
    "mlp_ratio", "qkv_bias", "qkv_fused", "qk_norm", "num_kv_heads", "scale_attn_norm",
    "scale_attn_inner", "scale_mlp_norm", "scale_mlp", "swiglu_mlp", "swiglu_align_to", "proj_bias",
    "init_values", "attn_only_layer_scale", "class_token", "reg_tokens", "num_reg_tokens",
    "pos_embed", "no_embed_class", "use_abs_pos_emb", "use_rel_pos_bias", "use_shared_rel_pos_bias",
    "shared_rel_pos", "rel_pos_dim", "pre_norm", "final_norm", "fc_norm", "use_fc_norm",
    "use_pre_transformer_norm", "use_post_transformer_norm", "embed_norm_layer", "attn_type",
    "attn_pool_num_heads", "attn_pool_mlp_ratio",
    // These are about training and about pictures of another size.
    "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate",
    "drop_path_rate", "weight_init", "fix_init", "head_init_scale", "rope_shift_coords",
    "rope_jitter_coords", "rope_rescale_coords", "dynamic_img_size", "dynamic_img_pad",
    "strict_img_size", "pretrained", "device"};

/// Arguments of rotations with the values that the architecture's own have; empty where it has none.
std::vector<std::pair<std::string, nlohmann::json>> rotation_arguments(
    const std::string& architecture) {
  const auto found = model::find_architecture(architecture);
  if (!found || found->config.rel_pos.empty() || found->config.rel_pos.front().rule != "rope")
    return {};
  const auto& options = found->config.rel_pos.front().options;
  const auto option = [&](const char* key, const char* otherwise) {
    const auto given = options.find(key);
    return given == options.end() ? std::string(otherwise) : given->second;
  };
  const bool is_mixed = option("variant", "axial") == "mixed";
  const nlohmann::json shape =
      option("coords", "patch") == "train" ? nlohmann::json{16, 16} : nlohmann::json();
  return {{"use_rot_pos_emb", true},
          {"rope_type", is_mixed                              ? "mixed"
                        : option("coords", "patch") == "unit" ? "dinov3"
                                                              : "cat"},
          {"rope_temperature", parse_number<double>(option("base", "100")).value_or(0)},
          {"rope_grid_offset", 0},
          {"rope_grid_indexing", option("order", "xy")},
          {"rope_rotate_half", option("layout", "pairs") == "half"},
          {"ref_feat_shape", shape}};
}

/// An argument that neither the weights nor the architecture's name show. Unset it is as if it were not there.
void read_hidden_argument(HubConfig& config, const JsonFields& args, const std::string& key,
                          const nlohmann::json& value) {
  const auto rotations = rotation_arguments(config.architecture);
  const auto rotation =
      std::ranges::find(rotations, key, [](const auto& each) { return each.first; });
  const bool is_of_rotation = key.starts_with("rope_") || key == "ref_feat_shape";
  constexpr std::string_view kSwitches[] = {"pool_include_prefix", "use_post_norm",
                                            "use_rot_pos_emb"};
  if (rotation != rotations.end()) {
    if (value == rotation->second ||
        (rotation->second.is_array() && value == rotation->second.front()))
      return;
  } else if (value.is_null() || (rotations.empty() && is_of_rotation) ||
             (value == false && is_one_of(kSwitches, key)) ||
             (key == "rel_pos_type" && (value == "mlp" || value == "bias"))) {
    return;
  } else if (key == "act_layer" && value == "gelu") {
    config.says_gelu = true;
    return;
  } else if (key == "norm_layer" && value == "layernorm") {
    constexpr double kTimms = 1e-6;
    config.layer_norm_eps = kTimms;
    return;
  }
  constexpr std::size_t kLongest = 40;
  const std::string found = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  refuse_kind(args,
              "model_args." + key.substr(0, kLongest) + " " + found.substr(0, kLongest) +
                  " may change what the model computes in a way that this program does not know");
}

void read_model_args(HubConfig& config, const JsonFields& args, const nlohmann::json& all) {
  read_img_size(config, args, "img_size");
  read_pooling(config, args);
  if (const auto heads = args.integer("num_heads", 1, kMaxWidth)) config.num_heads = heads;
  // 0: a model without a classifier.
  if (const auto classes = args.integer("num_classes", 0, kMaxClasses); classes.value_or(0) > 0) {
    config.num_classes = classes;
    config.says_classes = "model_args.num_classes";
  }
  claim(config, args, "embed_dim", &VitConfig::embed_dim, kMaxWidth);
  claim(config, args, "depth", &VitConfig::depth, kMaxDepth);
  const auto channels = args.integer("in_chans", 1, kMaxWidth);
  check_channels(args, channels);
  if (channels) config.claims.push_back({"in_chans", &VitConfig::in_chans, *channels});
  claim_patch_size(config, args);
  claim_bias(config, args);
  constexpr std::int64_t kMostRegisters = 1 << 12;
  claim(config, args, "reg_tokens", &VitConfig::reg_tokens, kMostRegisters, 0);
  claim(config, args, "num_reg_tokens", &VitConfig::reg_tokens, kMostRegisters, 0);
  config.pads_pictures = args.flag("dynamic_img_pad").value_or(false);
  for (const auto& [key, value] : all.items()) {
    if (!is_one_of(kKnownArguments, key)) read_hidden_argument(config, args, key, value);
  }
}

/// Facts that a name of timm's says beside the tensors, and claims that the tensors can contradict. Refuses names that are not computed.
void read_architecture(HubConfig& config, const JsonFields& fields) {
  config.architecture = model::present_name(fields.text("architecture").value_or(""));
  if (const std::string why = model::why_not_computed(config.architecture); !why.empty())
    refuse_kind(fields, "the architecture " + config.architecture + " " + why);
  const auto says = [&](std::int64_t embed_dim, std::int64_t patch_size) {
    const nlohmann::json* args = fields.find("model_args");
    const auto is_given = [&](const char* key) {
      return args != nullptr && args->is_object() && args->contains(key);
    };
    const std::string of = "the architecture " + config.architecture;
    if (!is_given("embed_dim"))
      config.claims.push_back({of + " (embed_dim)", &VitConfig::embed_dim, embed_dim});
    if (!is_given("patch_size"))
      config.claims.push_back({of + " (patch_size)", &VitConfig::patch_size, patch_size});
  };
  if (const model::TimmModel* timm = model::find_timm_model(config.architecture)) {
    config.num_heads = timm->num_heads;
    config.layer_norm_eps = timm->layer_norm_eps;
    config.global_pool = timm->global_pool;
    says(timm->embed_dim, timm->patch_size);
  } else if (const auto ours = model::find_architecture(config.architecture)) {
    says(ours->config.embed_dim, ours->config.patch_size);
  } else {
    config.is_unknown = config.architecture != "vit";
  }
  claim(config, fields, "num_features", &VitConfig::embed_dim, kMaxWidth);
}

void read_timm(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::timm;
  read_architecture(config, fields);
  // Before timm 0.9 its fields stood among the others.
  const JsonFields pretrained = fields.object("pretrained_cfg").value_or(fields);
  if (const auto size = pretrained.integers("input_size", 3, 1, kMaxPixels))
    check_channels(pretrained, size->front());
  config.transform = read_timm_transform(pretrained, origin);
  if (config.transform.origins.contains("img_size")) {
    config.img_height = config.transform.values.img_size.height;
    config.img_width = config.transform.values.img_size.width;
  }
  for (const JsonFields& level : {pretrained, fields}) {
    // 0: weights without a classifier.
    if (const auto classes = level.integer("num_classes", 0, kMaxClasses);
        classes.value_or(0) > 0) {
      config.num_classes = classes;
      config.says_classes = "num_classes";
    }
    if (const auto license = level.text("license")) config.license = *license;
  }
  read_timm_labels(config, fields);
  read_pooling(config, fields);
  if (const auto args = fields.object("model_args"))
    read_model_args(config, *args, *fields.find("model_args"));
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
  config.says_classes = "id2label";
  if (named) config.labels = std::move(labels);
}

void read_hugging_face(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::hugging_face;
  const auto said_type = fields.text("model_type");
  if (!said_type)
    refuse_kind(fields, "it says no model_type: this program reads vit and deit of Hugging Face");
  const std::string& type = *said_type;
  if (type != "vit" && type != "deit") {
    refuse_kind(fields, "model_type '" + type.substr(0, 60) +
                            "': this program reads vit and deit of Hugging Face");
  }
  // gelu_python is the exact one, too.
  if (const auto activation = fields.text("hidden_act");
      activation && *activation != "gelu" && *activation != "gelu_python") {
    refuse_kind(fields, "hidden_act '" + activation->substr(0, 60) + "': this program has gelu");
  }
  check_channels(fields, fields.integer("num_channels", 1, kMaxWidth));
  if (const auto classes = fields.integer("num_labels", 1, kMaxClasses)) {
    config.num_classes = classes;
    config.says_classes = "num_labels";
  }
  claim(config, fields, "hidden_size", &VitConfig::embed_dim, kMaxWidth);
  claim_bias(config, fields);
  if (const auto hidden = fields.integer("intermediate_size", 1, 64 * kMaxWidth))
    config.claims.push_back({"intermediate_size", &VitConfig::hidden_dim, *hidden});
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
       "Hugging Face's defaults for " + type,
       fields.integer("num_channels", 1, kMaxWidth).value_or(3)});
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
  const auto contradict = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, what, file.string(),
                "does it belong to these weights?");
  };
  for (const Claim& claim : claims) {
    if (const std::int64_t shown = claim.shown(config); shown != claim.value)
      contradict(claim.key + " says " + std::to_string(claim.value) + ", the tensors show " +
                 std::to_string(shown));
  }
  if (num_heads && config.embed_dim % *num_heads != 0)
    contradict(std::to_string(*num_heads) + " attention heads do not divide " +
               std::to_string(config.embed_dim) + " features");
  if (says_gelu && config.swiglu_mlp)
    contradict("model_args.act_layer says gelu, the tensors show gated MLPs, which have SiLU here");
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
