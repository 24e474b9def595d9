// Hugging Face's config.json and preprocessor_config.json: one row for every model_type.
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/hub/hub_fields.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hydrascope::checkpoint {

namespace fs = std::filesystem;
using model::VitConfig;

namespace {

/// A model_type, and the values of its configuration's class in transformers 4.57 and 5.24 where a
/// file leaves them out (nested configurations say only what differs).
struct ModelType {
  std::string_view name;
  Processor processor = Processor::vit;
  std::string_view inside = {};  ///< the key of the vision tower's own configuration
  std::int64_t num_heads = 0;    ///< 0: not assumed
  double layer_norm_eps = 0;     ///< 0: the layout's
  std::string_view activation = "gelu";
  bool says_ratio = false;  ///< its MLPs are as wide as `mlp_ratio` says, not `intermediate_size`
};

constexpr double kDinoTypesEps = 1e-6;
constexpr double kClipTypesEps = 1e-5;
constexpr std::array kModelTypes{
    ModelType{"vit"},
    ModelType{"deit", Processor::deit},
    ModelType{"beit", Processor::beit},
    ModelType{"data2vec-vision", Processor::beit},
    ModelType{"vit_msn", Processor::vit, "", 12, 1e-6},
    ModelType{"vit_mae"},
    ModelType{"ijepa"},
    ModelType{"dinov2", Processor::bit, "", 12, kDinoTypesEps, "gelu", true},
    ModelType{"dinov2_with_registers", Processor::bit, "", 12, kDinoTypesEps, "gelu", true},
    ModelType{"dinov3_vit", Processor::dinov3, "", 6, 1e-5},
    ModelType{"clip", Processor::clip, "vision_config", 12, kClipTypesEps, "quick_gelu"},
    ModelType{"clip_vision_model", Processor::clip, "", 12, kClipTypesEps, "quick_gelu"},
    ModelType{"siglip", Processor::siglip, "vision_config", 12, 1e-6, "gelu_pytorch_tanh"},
    ModelType{"siglip_vision_model", Processor::siglip, "", 12, 1e-6, "gelu_pytorch_tanh"},
};

/// A word for an activation, and the network's field for it.
struct ActivationWord {
  std::string_view word;
  model::Activation act;
};
constexpr std::array kActivations{
    ActivationWord{"gelu", model::Activation::gelu},
    ActivationWord{"gelu_python", model::Activation::gelu},
    ActivationWord{"gelu_new", model::Activation::gelu_tanh},
    ActivationWord{"gelu_pytorch_tanh", model::Activation::gelu_tanh},
    ActivationWord{"quick_gelu", model::Activation::quick_gelu},
};

std::string known_types() {
  std::string known;
  for (const ModelType& type : kModelTypes)
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  return known;
}

const ModelType& type_of(const JsonFields& fields) {
  const auto said = fields.text("model_type");
  const auto found = std::ranges::find(kModelTypes, said.value_or(""), &ModelType::name);
  if (found != kModelTypes.end()) return *found;
  throw Error(
      ErrorCode::unsupported_format,
      said ? "model_type '" + said->substr(0, 60) + "' is not computed" : "it says no model_type",
      fields.subject(), "of Hugging Face this program reads " + known_types());
}

/// {"0": "tench", ...}: every class once. `LABEL_0`, transformers' word for a class without a name,
/// is no name.
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

void claim_shown(HubConfig& config, const char* key, std::string value,
                 std::function<std::string(const VitConfig&)> shown) {
  config.claims.push_back({key, std::move(shown), std::move(value)});
}

/// A flag that says which tensors there are.
template <class Shown>
void claim_flag(HubConfig& config, const JsonFields& fields, const char* key, const Shown& shown) {
  if (const auto value = fields.flag(key)) {
    claim_shown(config, key, flag_text(*value),
                [shown](const VitConfig& other) { return flag_text(shown(other)); });
  }
}

/// Claims the keys that the tensors show too.
void claim_tensors(HubConfig& config, const JsonFields& fields, const ModelType& type) {
  claim(config, fields, "hidden_size", &VitConfig::embed_dim, kMaxWidth);
  for (const char* key : {"qkv_bias", "query_bias", "value_bias"})
    claim(config, fields, key, &VitConfig::qkv_bias);
  for (const char* key : {"use_swiglu_ffn", "use_gated_mlp"})
    claim(config, fields, key, &VitConfig::swiglu_mlp);
  constexpr std::int64_t kMostRegisters = 1 << 12;
  claim(config, fields, "num_register_tokens", &VitConfig::reg_tokens, kMostRegisters, 0);
  const bool is_gated = fields.flag("use_swiglu_ffn").value_or(false);
  if (const auto ratio = type.says_ratio ? fields.number("mlp_ratio") : std::nullopt) {
    const std::string said = shortest_number(*ratio);
    claim_shown(config, "mlp_ratio", said, [said, ratio, is_gated](const VitConfig& shown) {
      const auto plain = static_cast<std::int64_t>(static_cast<double>(shown.embed_dim) * *ratio);
      // Dinov2SwiGLUFFN: two thirds, in multiples of eight.
      const std::int64_t gated = (plain * 2 / 3 + 7) / 8 * 8;
      return (is_gated ? gated : plain) == shown.hidden_dim() ? said
                                                              : shortest_number(shown.mlp_ratio);
    });
  }
  const auto hidden =
      type.says_ratio ? std::nullopt : fields.integer("intermediate_size", 1, 64 * kMaxWidth);
  if (hidden) {
    claim_shown(config, "intermediate_size", std::to_string(*hidden),
                [](const VitConfig& shown) { return std::to_string(shown.hidden_dim()); });
  }
  claim(config, fields, "num_hidden_layers", &VitConfig::depth, kMaxDepth);
  claim(config, fields, "num_channels", &VitConfig::in_chans, 64);
  claim_patch_size(config, fields);
  // BEiT's.
  const auto has_table = [](const VitConfig& shown) { return model::has_table(shown.pos_embed); };
  claim_flag(config, fields, "use_absolute_position_embeddings", has_table);
  const bool is_relative = fields.flag("use_relative_position_bias").value_or(false) ||
                           fields.flag("use_shared_relative_position_bias").value_or(false);
  if (fields.contains("use_relative_position_bias")) {
    claim_shown(
        config, "use_relative_position_bias", flag_text(is_relative), [](const VitConfig& shown) {
          return flag_text(!shown.rel_pos.empty() && shown.rel_pos.front().rule == "relbias");
        });
  }
  claim(config, fields, "use_mean_pooling", &VitConfig::fc_norm);
  if (const auto start = fields.number("layer_scale_init_value")) {
    claim_shown(config, "layer_scale_init_value", *start > 0 ? "a LayerScale" : "no LayerScale",
                [](const VitConfig& shown) {
                  return std::string(shown.layer_scale ? "a LayerScale" : "no LayerScale");
                });
  }
  for (const char* key : {"proj_bias", "mlp_bias"}) {
    if (!fields.flag(key).value_or(true))
      refuse_kind(fields, std::string(key) + " false: this program computes these biases");
  }
}

void read_activation(HubConfig& config, const JsonFields& fields, const ModelType& type) {
  const std::string word = fields.text("hidden_act").value_or(std::string(type.activation));
  if (fields.flag("use_gated_mlp").value_or(false)) {
    if (word != "silu")
      refuse_kind(fields,
                  "hidden_act '" + word.substr(0, 60) + "' with gated MLPs, which have silu here");
    return;
  }
  // DINOv2's gates are of silu whatever the key says.
  if (fields.flag("use_swiglu_ffn").value_or(false)) return;
  VitConfig unused;
  parts_of(word, unused, fields.subject());
  config.activation = word;
}

/// The vision tower's configuration, in `fields` or inside of it.
void read_tower(HubConfig& config, const JsonFields& fields, const ModelType& type) {
  read_activation(config, fields, type);
  check_channels(fields, fields.integer("num_channels", 1, kMaxWidth));
  claim_tensors(config, fields, type);
  read_img_size(config, fields, "image_size");
  config.num_heads = fields.integer("num_attention_heads", 1, kMaxWidth);
  if (!config.num_heads && type.num_heads > 0) config.num_heads = type.num_heads;
  config.layer_norm_eps = fields.number("layer_norm_eps");
  if (config.layer_norm_eps && !(*config.layer_norm_eps > 0 && *config.layer_norm_eps < 1))
    fields.refuse("layer_norm_eps", "a number between 0 and 1");
  if (!config.layer_norm_eps && type.layer_norm_eps > 0)
    config.layer_norm_eps = type.layer_norm_eps;
  if (type.name != "dinov3_vit") return;
  const double base = fields.number("rope_theta").value_or(100);
  if (!(base > 0)) fields.refuse("rope_theta", "a number above 0");
  config.rotations = dinov3_rotations(base);
  constexpr std::int64_t kUsualSize = 224;
  if (!config.img_height) config.img_height = config.img_width = kUsualSize;
}

void read_transform(HubConfig& config, const JsonFields& tower, const ModelType& type,
                    const std::string& origin) {
  const fs::path file = config.file.parent_path() / "preprocessor_config.json";
  const auto preprocessor = load_json_object(file);
  const nlohmann::json nothing = nlohmann::json::object();
  constexpr std::int64_t kUsualSize = 224;  // of all the configurations' classes
  const std::string name(type.name);
  config.transform = read_preprocessor(
      JsonFields(preprocessor ? *preprocessor : nothing, file.string()), file.filename().string(),
      {type.processor,
       {config.img_height.value_or(kUsualSize), config.img_width.value_or(kUsualSize)},
       "Hugging Face's defaults for " + name,
       tower.integer("num_channels", 1, kMaxWidth).value_or(3)});
  if (!config.transform.difference.empty()) config.notes.push_back(config.transform.difference);
  if (!preprocessor) {
    config.notes.push_back("no preprocessor_config.json beside " + origin +
                           ": Hugging Face's defaults for " + name + " are assumed");
  }
}

}  // namespace

model::PositionSpec dinov3_rotations(double base) {
  model::PositionSpec spec{"rope", {{"order", "ij"}, {"layout", "half"}, {"coords", "unit"}}};
  constexpr double kUsualBase = 100;  // the rule's default
  if (base != kUsualBase) spec.options["base"] = shortest_number(base);
  return spec;
}

void parts_of(std::string_view activation, VitConfig& config, const std::string& subject) {
  const auto found = std::ranges::find(kActivations, activation, &ActivationWord::word);
  if (found == kActivations.end())
    throw Error(ErrorCode::unsupported_format,
                "hidden_act '" + std::string(activation.substr(0, 60)) +
                    "': this program has gelu, its form with tanh and quick_gelu",
                subject);
  config.act = found->act;
}

void read_hugging_face(HubConfig& config, const JsonFields& fields, const std::string& origin) {
  config.kind = HubConfig::Kind::hugging_face;
  const ModelType& type = type_of(fields);
  const nlohmann::json nothing = nlohmann::json::object();
  const JsonFields tower =
      type.inside.empty()
          ? fields
          : fields.object(type.inside).value_or(JsonFields(nothing, fields.subject()));
  read_tower(config, tower, type);
  if (const auto classes = fields.integer("num_labels", 1, kMaxClasses)) {
    config.num_classes = classes;
    config.says_classes = "num_labels";
  }
  read_id2label(config, fields);
  read_transform(config, tower, type, origin);
}

}  // namespace hydrascope::checkpoint
