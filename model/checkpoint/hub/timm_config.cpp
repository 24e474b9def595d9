// timm's config.json: facts of its architecture's name, `model_args` and `pretrained_cfg`.
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/hub/hub_fields.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hydrascope::checkpoint {

using model::VitConfig;

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

namespace {

void read_pooling(HubConfig& config, const JsonFields& fields) {
  const auto word = fields.text("global_pool");
  if (!word || word->empty()) return;
  const auto known = model::find_word<model::Pooling>(*word);
  if (!known) fields.refuse("global_pool", "\"token\", \"avg\" or \"map\"");
  config.global_pool = known;
}

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Arguments of timm's models that `read_model_args` and `claim_arguments` read, arguments that
/// shape tensors, and arguments of training alone.
constexpr std::string_view kKnownArguments[] = {
    "img_size", "patch_size", "in_chans", "num_classes", "global_pool", "embed_dim", "depth",
    "num_heads", "mlp_ratio", "qkv_bias", "proj_bias", "scale_mlp_norm", "scale_mlp", "swiglu_mlp",
    "init_values", "class_token", "reg_tokens", "num_reg_tokens", "no_embed_class",
    "use_abs_pos_emb", "rel_pos_dim", "shared_rel_pos", "fc_norm", "use_fc_norm",
    // Both values give the same names and shapes of tensors.
    "qkv_fused", "attn_type", "swiglu_align_to", "pre_norm", "use_pre_transformer_norm",
    "scale_attn_norm", "scale_attn_inner",
    // These are about training and about pictures of another size.
    "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate",
    "drop_path_rate", "weight_init", "fix_init", "head_init_scale", "rope_shift_coords",
    "rope_jitter_coords", "rope_rescale_coords", "dynamic_img_size", "dynamic_img_pad",
    "strict_img_size", "pretrained", "device"};

/// Parts that are not computed, and parts that are always there.
constexpr std::string_view kSwitches[] = {"use_rot_pos_emb", "qk_norm", "attn_only_layer_scale",
                                          "use_shared_rel_pos_bias"};
constexpr std::string_view kAlwaysThere[] = {"final_norm", "use_rel_pos_bias"};

/// Claims the arguments that the tensors show too.
void claim_arguments(HubConfig& config, const JsonFields& args) {
  claim(config, args, "embed_dim", &VitConfig::embed_dim, kMaxWidth);
  claim(config, args, "depth", &VitConfig::depth, kMaxDepth);
  claim_patch_size(config, args);
  constexpr std::int64_t kMostRegisters = 1 << 12;
  for (const char* key : {"reg_tokens", "num_reg_tokens"})
    claim(config, args, key, &VitConfig::reg_tokens, kMostRegisters, 0);
  claim(config, args, "qkv_bias", &VitConfig::qkv_bias);
  claim(config, args, "proj_bias", &VitConfig::proj_bias);
  claim(config, args, "class_token", &VitConfig::class_token);
  claim(config, args, "swiglu_mlp", &VitConfig::swiglu_mlp);
  for (const char* key : {"pre_norm", "use_pre_transformer_norm"})
    claim(config, args, key, &VitConfig::norm_pre);
  for (const char* key : {"scale_attn_norm", "scale_attn_inner"})
    claim(config, args, key, &VitConfig::scale_attn);
  for (const char* key : {"scale_mlp_norm", "scale_mlp"})
    claim(config, args, key, &VitConfig::scale_mlp);
  const auto claim_flag = [&](const char* key, auto shown) {
    if (const auto value = args.flag(key))
      config.claims.push_back({key,
                               [shown, value](const VitConfig& other) {
                                 return flag_text(shown(other).value_or(*value));
                               },
                               flag_text(*value)});
  };
  using Shown = std::optional<bool>;  // nothing: both values compute the same
  claim_flag("no_embed_class", [](const VitConfig& shown) {
    const bool matters = shown.num_prefix_tokens() > 0 && model::has_table(shown.pos_embed);
    return matters ? Shown(shown.no_embed_class) : std::nullopt;
  });
  claim_flag("use_abs_pos_emb",
             [](const VitConfig& shown) { return Shown(model::has_table(shown.pos_embed)); });
  const auto has_relative = [](const VitConfig& shown) {
    return Shown(!shown.rel_pos.empty() && shown.rel_pos.front().rule == "relbias");
  };
  claim_flag("use_rel_pos_bias", has_relative);
  // Without it layers have positions of their own.
  if (args.flag("shared_rel_pos") == true) claim_flag("shared_rel_pos", has_relative);
  for (const char* key : {"fc_norm", "use_fc_norm"}) {
    claim_flag(key, [](const VitConfig& shown) {
      const bool matters = shown.global_pool != model::Pooling::token;
      return matters ? Shown(shown.fc_norm) : std::nullopt;
    });
  }
  if (const auto start = args.number("init_values"); start && *start != 0) {
    config.claims.push_back({"init_values",
                             [](const VitConfig& shown) {
                               return std::string(shown.layer_scale ? "a LayerScale"
                                                                    : "no LayerScale");
                             },
                             "a LayerScale"});
  }
  if (const auto ratio = args.number("mlp_ratio"); ratio && !args.contains("swiglu_align_to")) {
    const std::string said = shortest_number(*ratio);
    config.claims.push_back({"mlp_ratio",
                             [said, ratio](const VitConfig& shown) {
                               const auto hidden = static_cast<std::int64_t>(
                                   static_cast<double>(shown.embed_dim) * *ratio);
                               // Some of timm's gated MLPs count the gate.
                               const bool is_same =
                                   hidden == shown.hidden_dim() ||
                                   (shown.swiglu_mlp && hidden / 2 == shown.hidden_dim());
                               return is_same ? said : shortest_number(shown.mlp_ratio);
                             },
                             said});
  }
  if (const auto hidden = args.integer("rel_pos_dim", 1, kMaxWidth)) {
    config.claims.push_back({"rel_pos_dim",
                             [](const VitConfig& shown) {
                               const auto& rules = shown.rel_pos;
                               if (rules.empty() || !rules.front().options.contains("hidden"))
                                 return std::string("no network of positions");
                               return rules.front().options.at("hidden");
                             },
                             std::to_string(*hidden)});
  }
}

/// Arguments of rotations with the architecture's own values; empty if it has no rotations.
std::vector<std::pair<std::string, nlohmann::json>> rotation_arguments(
    const std::string& architecture) {
  model::PositionSpec rule;
  if (const auto found = model::find_architecture(architecture))
    rule = found->config.rel_pos_of(0);
  else if (const model::TimmModel* const timm = model::find_timm_model(architecture))
    rule = rotations_of(*timm);
  if (rule.rule != "rope") return {};
  const auto& options = rule.options;
  const auto option = [&](const char* key, const char* otherwise) {
    const auto given = options.find(key);
    return given == options.end() ? std::string(otherwise) : given->second;
  };
  const bool is_mixed = option("variant", "axial") == "mixed";
  const bool is_eva = option("coords", "patch") == "train" && option("order", "xy") == "ij";
  const nlohmann::json shape = is_eva ? nlohmann::json{16, 16} : nlohmann::json();
  return {{"use_rot_pos_emb", true},
          {"rope_type", is_mixed                              ? "mixed"
                        : option("coords", "patch") == "unit" ? "dinov3"
                                                              : "cat"},
          {"rope_temperature", parse_number<double>(option("base", "100")).value_or(0)},
          {"rope_grid_offset", parse_number<double>(option("offset", "0")).value_or(0)},
          {"rope_grid_indexing", option("order", "xy")},
          {"rope_rotate_half", option("layout", "pairs") == "half"},
          {"ref_feat_shape", shape}};
}

/// An argument that neither the weights nor the architecture's name show. Unset means absent.
void read_hidden_argument(HubConfig& config, const JsonFields& args, const std::string& key,
                          const nlohmann::json& value) {
  const auto rotations = rotation_arguments(config.architecture);
  const auto rotation =
      std::ranges::find(rotations, key, [](const auto& each) { return each.first; });
  const bool is_of_rotation = key.starts_with("rope_") || key == "ref_feat_shape";
  if (rotation != rotations.end()) {
    if (value == rotation->second ||
        (rotation->second.is_array() && value == rotation->second.front()))
      return;
  } else if (value.is_null() || (rotations.empty() && is_of_rotation) ||
             (value == false && is_one_of(kSwitches, key)) ||
             (value == true && is_one_of(kAlwaysThere, key)) ||
             (key == "pos_embed" && value == "learn") ||
             (key == "rel_pos_type" && (value == "mlp" || value == "bias"))) {
    return;
  } else if (key == "act_layer" && value.is_string() &&
             model::find_word<model::Activation>(value.get<std::string>())) {
    config.act = model::find_word<model::Activation>(value.get<std::string>());
    config.says_act = true;
    return;
  } else if (key == "attn_pool_num_heads" && value.is_number_integer() && value > 0 &&
             value <= kMaxWidth) {
    config.pool_heads = value.get<std::int64_t>();
    return;
  } else if (key == "pool_include_prefix" && value.is_boolean()) {
    config.pool_prefix = value.get<bool>();
    return;
  } else if (key == "use_post_norm" && value.is_boolean() &&
             value.get<bool>() == config.post_norm.value_or(false)) {
    return;
  } else if (key == "final_norm" && value == false) {
    config.final_norm = false;
    return;
  } else if (key == "norm_layer" && (value == "layernorm" || value == "rmsnorm")) {
    constexpr double kTimms = 1e-6;
    config.layer_norm_eps = kTimms;
    // timm gives the patches' norm another eps then, the architecture's own.
    config.claims.push_back({"model_args.norm_layer",
                             [](const VitConfig& shown) {
                               return std::string(shown.rms_norm ? "rmsnorm" : "layernorm") +
                                      (shown.patch_norm ? " beside a norm of the patches" : "");
                             },
                             value.get<std::string>()});
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
  const auto channels = args.integer("in_chans", 1, kMaxWidth);
  check_channels(args, channels);
  if (channels) claim(config, "in_chans", &VitConfig::in_chans, *channels);
  claim_arguments(config, args);
  config.pads_pictures = args.flag("dynamic_img_pad").value_or(false);
  for (const auto& [key, value] : all.items()) {
    if (!is_one_of(kKnownArguments, key)) read_hidden_argument(config, args, key, value);
  }
}

/// Facts of a timm name that tensors do not show, and claims that they can contradict. Refuses
/// others.
void read_architecture(HubConfig& config, const JsonFields& fields) {
  config.architecture = model::present_name(fields.text("architecture").value_or(""));
  if (const std::string why = model::why_not_computed(config.architecture); !why.empty())
    refuse_kind(fields, "the architecture " + config.architecture + " " + why);
  const nlohmann::json* args = fields.find("model_args");
  const auto argument = [&](const char* key) {
    const bool has_any = args != nullptr && args->is_object() && args->contains(key);
    return has_any ? args->at(key) : nlohmann::json();
  };
  const auto says = [&](const char* key, std::int64_t VitConfig::*field, std::int64_t value) {
    if (argument(key).is_null())
      claim(config, "the architecture " + config.architecture + " (" + key + ")", field, value);
  };
  const model::TimmModel* timm = model::find_timm_model(config.architecture);
  const auto ours = model::find_architecture(config.architecture);
  if (timm != nullptr) {
    config.num_heads = timm->num_heads;
    config.layer_norm_eps = timm->layer_norm_eps;
    config.global_pool = timm->global_pool;
    config.act = timm->act;
    config.final_norm = timm->final_norm;
    config.post_norm = timm->post_norm;
    config.pool_heads = timm->pool_heads;
    config.pool_prefix = timm->pool_prefix;
    says("embed_dim", &VitConfig::embed_dim, timm->embed_dim);
    says("patch_size", &VitConfig::patch_size, timm->patch_size);
  } else if (ours) {
    says("embed_dim", &VitConfig::embed_dim, ours->config.embed_dim);
    says("patch_size", &VitConfig::patch_size, ours->config.patch_size);
  } else {
    config.is_unknown = config.architecture != "vit";
  }
  claim(config, fields, "num_features", &VitConfig::embed_dim, kMaxWidth);
  if (timm == nullptr && !ours) return;
  const std::string name = config.architecture.substr(0, config.architecture.find('.'));
  config.claims.push_back({"the architecture " + config.architecture + " (dist_token)",
                           [](const VitConfig& shown) { return flag_text(shown.distilled); },
                           flag_text(name.find("_distilled") != std::string::npos)});
  const bool is_said = !argument("fc_norm").is_null() || !argument("use_fc_norm").is_null();
  const bool pools_mean =
      (timm != nullptr ? timm->global_pool : ours->config.global_pool) == model::Pooling::avg;
  config.pooling_is_of_name = !fields.contains("global_pool") && argument("global_pool").is_null();
  // If the name pools the class token, timm normalises after a mean.
  if (is_said || pools_mean || config.final_norm == false || name.starts_with("vit_relpos_"))
    return;
  const bool is_of_name = config.pooling_is_of_name;
  const bool is_mean = argument("global_pool") == "avg" ||
                       (argument("global_pool").is_null() && fields.text("global_pool") == "avg");
  if (!is_of_name && !is_mean) return;
  config.claims.push_back(
      {is_of_name ? "the architecture " + config.architecture + " (global_pool)" : "global_pool",
       [](const VitConfig& shown) {
         return std::string(shown.fc_norm ? "avg with an fc_norm" : "a norm before the pooling");
       },
       is_mean ? "avg with an fc_norm" : "a norm before the pooling"});
}

}  // namespace

void read_timm(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::timm;
  read_architecture(config, fields);
  // Before timm 0.9 its fields stood among the others.
  const JsonFields pretrained = fields.object("pretrained_cfg").value_or(fields);
  const nlohmann::json* args = fields.find("model_args");
  if (const auto size = pretrained.integers("input_size", 3, 1, kMaxPixels)) {
    check_channels(pretrained, size->front());
    if (args == nullptr || !args->is_object() || !args->contains("in_chans"))
      claim(config, "input_size (channels)", &VitConfig::in_chans, size->front());
  }
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
  if (const auto inside = fields.object("model_args")) read_model_args(config, *inside, *args);
  const model::TimmModel* const timm = model::find_timm_model(config.architecture);
  if (timm == nullptr) return;
  // Its classes differ in the tokens that they pool.
  if (timm->global_pool != model::Pooling::map && config.global_pool == model::Pooling::map)
    refuse_kind(fields, "attention pooling, which " + config.architecture +
                            " has not by its name, is not computed");
  // They count the patches of the size that ends the name.
  const auto own = parse_number<std::int64_t>(timm->name.substr(timm->name.rfind('_') + 1));
  if (timm->rotations.starts_with("pe") && args != nullptr && args->contains("img_size") &&
      (config.img_height != own || config.img_width != own))
    refuse_kind(fields, "rotations of " + config.architecture +
                            " at another size than its own are not computed");
}

HubConfig read_training_arguments(const std::map<std::string, std::string>& metadata,
                                  const std::filesystem::path& file) {
  const auto text = [&](const std::string& key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? "" : found->second;
  };
  HubConfig config;
  std::string name = text("arch").empty() ? text("args.model") : text("arch");
  if (name.empty()) return config;
  for (const std::string_view hub : {"hf-hub:timm/", "hf_hub:timm/", "timm/"})
    if (name.starts_with(hub)) name.erase(0, hub.size());
  nlohmann::json json{{"architecture", name}, {"model_args", nlohmann::json::object()}};
  if (const std::string pooling = text("args.gp"); !pooling.empty()) json["global_pool"] = pooling;
  constexpr std::string_view kArguments = "args.model_kwargs.";
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kArguments)) continue;
    const nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
    json["model_args"][key.substr(kArguments.size())] =
        parsed.is_discarded() ? nlohmann::json(value) : parsed;
  }
  config.file = file;
  read_timm(config, JsonFields(json, file.string()), file.filename().string());
  return config;
}

}  // namespace hydrascope::checkpoint
