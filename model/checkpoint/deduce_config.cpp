// Checkpoint::deduce_config: the facts of the metadata and of a configuration beside the file,
// corrected by the shapes of the tensors.
#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/scalar_type.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using model::VitConfig;

constexpr const char* kNameIt = "name the architecture: `model` NAME `checkpoint` FILE";

/// 0 when `value` is no square.
std::int64_t square_root(std::int64_t value) {
  const auto root = static_cast<std::int64_t>(
      std::llround(std::sqrt(static_cast<double>(std::max<std::int64_t>(value, 0)))));
  return root * root == value && root > 0 ? root : 0;
}

/// The image size of a pos_embed of `length` positions, and whether it has entries for the prefix
/// tokens: for a square grid unless `config` says one that fits.
void deduce_grid(VitConfig& config, std::int64_t length, const std::string& subject) {
  const std::int64_t prefix = config.num_prefix_tokens();
  const std::int64_t patch = std::max<std::int64_t>(config.patch_size, 1);
  const std::int64_t said = (config.img_height / patch) * (config.img_width / patch);
  if (length == said + prefix || length == said) {
    config.no_embed_class = length == said && prefix > 0;
    // Pixels at the right and bottom that fill no patch are in no position.
    config.img_height -= config.img_height % patch;
    config.img_width -= config.img_width % patch;
  } else if (const std::int64_t with_slots = square_root(length - prefix); with_slots > 0) {
    config.no_embed_class = false;
    config.img_height = config.img_width = with_slots * patch;
  } else if (const std::int64_t patches_only = square_root(length); patches_only > 0) {
    config.no_embed_class = prefix > 0;
    config.img_height = config.img_width = patches_only * patch;
  } else {
    throw Error(ErrorCode::failed,
                "pos_embed has " + std::to_string(length) +
                    " positions, which is no square grid with or without " +
                    std::to_string(prefix) + " prefix tokens",
                subject, kNameIt);
  }
}

/// Any number of heads fits the tensors, and a wrong one gives wrong answers.
[[noreturn]] void refuse_unknown_heads(const VitConfig& config, const std::string& subject) {
  const std::string like = model::architecture_of_shape(config);
  throw Error(
      ErrorCode::failed,
      "nothing says how many attention heads it has, and models of " +
          std::to_string(config.embed_dim) + " features differ in it",
      subject,
      "name the architecture: `model` " + (like.empty() ? "NAME" : like) +
          " `checkpoint` FILE, or put {\"architecture\": \"NAME\"}, timm's, into a config.json "
          "beside it");
}

/// EVA-02 counts 16 x 16 patches at every size; coords=train counts the file's own size.
/// Perception Encoder's count the patches of the size that the name stands for, `said`.
void scale_rotations(VitConfig& config, image::Size said, const std::string& subject) {
  for (model::PositionSpec& layer : config.rel_pos) {
    const auto coords = layer.options.find("coords");
    const auto order = layer.options.find("order");
    if (layer.rule != "rope" || coords == layer.options.end() || coords->second != "train" ||
        order == layer.options.end() || order->second != "ij") {
      if (layer.options.contains("offset") &&
          (config.img_height != said.height || config.img_width != said.width))
        throw Error(ErrorCode::unsupported_format,
                    "rotations of this architecture at another size than its own are not computed",
                    subject);
      continue;
    }
    if (config.grid_rows() != config.grid_columns()) {
      throw Error(ErrorCode::unsupported_format,
                  "the rotations of an EVA-02 that was made for " +
                      std::to_string(config.img_height) + "x" + std::to_string(config.img_width) +
                      " pixels, no square, are not computed",
                  subject);
    }
    const double scale = 16.0 / static_cast<double>(config.grid_rows());
    layer.options.erase("scale");
    if (scale != 1) layer.options["scale"] = shortest_number(scale);
  }
}

/// Refuses a bare file whose tensors several of timm's networks have.
void refuse_ambiguous(const VitConfig& config, bool has_gammas, const std::string& subject) {
  const auto refuse = [&](const std::string& what, const char* hint = kNameIt) {
    throw Error(ErrorCode::failed, what, subject, hint);
  };
  if (has_gammas && config.class_token && config.no_embed_class && config.reg_tokens == 0 &&
      config.rel_pos.empty())
    refuse(
        "nothing says whether it is a DeiT-III or a RoPE-ViT with a table, which have the same "
        "tensors");
  constexpr std::int64_t kWidth = 1024;
  constexpr std::int64_t kEdge = 512;
  if (!config.class_token && config.reg_tokens == 0 && config.embed_dim == kWidth &&
      config.img_height == kEdge && !config.fc_norm)
    refuse("nothing says whether its GELU is exact: SigLIP 2 of this shape has tanh GELU",
           "put timm's config.json beside it");
}

/// Refuses a file without a table of positions: no tensor shows its size.
void refuse_unknown_size(const VitConfig& config, const std::string& subject) {
  constexpr std::array<std::int64_t, 4> kWidths{384, 512, 768, 1024};  // timm's for 224 pixels
  if (model::has_table(config.pos_embed) ||
      std::ranges::find(kWidths, config.embed_dim) != kWidths.end())
    return;
  throw Error(ErrorCode::failed,
              "nothing says which size of pictures it was made for, and models of " +
                  std::to_string(config.embed_dim) + " features differ in it",
              subject, "put timm's config.json with its pretrained_cfg beside it");
}

/// A few bytes of header can claim a model of terabytes; the data that are there bound the model.
void check_size(const VitConfig& config, const std::vector<TensorView>& tensors,
                const std::string& subject) {
  double elements = 0;
  for (const TensorView& view : tensors)
    elements += static_cast<double>(view.data.size() / size_of(view.dtype));
  const auto dim = static_cast<double>(config.embed_dim);
  double least = static_cast<double>(config.num_blocks()) * dim * dim *
                 (4 + static_cast<double>(config.mlp_matrices()) * config.mlp_ratio);
  for (std::int64_t block = 0; block < config.num_blocks(); ++block) {
    const model::AttentionSpec layer = config.attention_of(block);
    const model::MechanismEntry& entry = model::find_mechanism(layer.mechanism);
    if (entry.added_elements)
      least +=
          entry.added_elements({config.training_grid(), config.embed_dim, config.num_heads}, layer);
  }
  constexpr double kSlack = 1e8;  // small files with missing tensors still get the list of them
  if (least > 4 * elements + kSlack) {
    throw Error(ErrorCode::failed,
                "its shapes call for " + std::to_string(least) + " parameters, it holds " +
                    std::to_string(elements),
                subject);
  }
}

}  // namespace

std::optional<VitConfig> Checkpoint::own_config() const {
  const std::string said = metadata(kConfigKey);
  if (!is_own() || said.empty()) return std::nullopt;
  return model::config_from_json(said, file().string() + ": " + std::string(kConfigKey));
}

const HubConfig* Checkpoint::hub_of_others() const {
  return is_own() || hub_.kind == HubConfig::Kind::none ? nullptr : &hub_;
}

std::optional<double> Checkpoint::said_layer_norm_eps() const {
  if (const auto own = own_config()) return own->layer_norm_eps;
  const HubConfig* hub = hub_of_others();
  if (hub != nullptr && hub->layer_norm_eps) return hub->layer_norm_eps;
  // timm's eps depends on the architecture.
  if (mapping_.layout->origin == Origin::timm) return std::nullopt;
  return mapping_.layout->layer_norm_eps;
}

std::int64_t Checkpoint::num_classes(const HeadOptions& head,
                                     std::optional<std::int64_t> said) const {
  if (head.num_classes) return *head.num_classes;
  const NamedTensor* weight = find("head.weight");
  if (weight != nullptr && weight->shape && weight->shape->size() == 2)
    return weight->shape->front();
  const std::string name = mapping_.file_names("head.weight").front();
  if (weight != nullptr) {
    throw Error(ErrorCode::failed,
                name + ": expected 2 dimensions, found " + shape_text(weight->parts.front()->shape),
                file().string());
  }
  if (!head.reset) {
    if (const auto own = own_config(); own && own->num_classes > 0)
      throw Error(ErrorCode::failed, name + " is missing", file().string(), new_head_hint(head));
    return 0;
  }
  if (!said) {
    throw Error(ErrorCode::invalid_argument, "how many classes the new classifier has is not known",
                "`reset_head`", "say it: `num_classes` N");
  }
  return *said;
}

void Checkpoint::read_activation(VitConfig& config) const {
  const HubConfig* hub = hub_of_others();
  const bool is_of_hub = hub != nullptr && hub->kind == HubConfig::Kind::hugging_face;
  // An architecture of timm's says it by its name.
  if (!is_of_hub && (!architecture_name().empty() || mapping_.layout->native)) return;
  const std::string_view word =
      is_of_hub ? std::string_view(hub->activation) : mapping_.layout->activation;
  if (!word.empty()) {
    parts_of(word, config, file().string());
  } else if (!is_of_hub) {
    throw Error(ErrorCode::failed,
                "nothing says which GELU its MLPs have, and CLIP's models differ in it",
                file().string(),
                std::string("put its config.json of Hugging Face beside it, or ") + kNameIt);
  }
}

std::vector<model::AttentionSpec> Checkpoint::stored_attention(std::int64_t depth) const {
  const bool is_possible = depth >= 1 && depth <= 1024;
  std::vector<model::AttentionSpec> layers(is_possible ? static_cast<std::size_t>(depth) : 0);
  const std::string spec = is_own() && is_possible ? metadata("attention") : "";
  try {
    if (!spec.empty()) model::apply_attention_spec(spec, layers);
  } catch (const Error& error) {
    throw Error(ErrorCode::unsupported_format, std::string("attention: ") + error.what(),
                file().string(), error.hint());
  }
  if (const auto own = own_config()) {
    if (!own->attention.empty() && !std::cmp_equal(own->attention.size(), depth)) {
      throw Error(ErrorCode::failed,
                  "its metadata give attention for " + std::to_string(own->attention.size()) +
                      " layers, the model has " + std::to_string(depth),
                  file().string());
    }
    const bool is_softmax = own->attention.empty();
    for (std::size_t i = 0; i < layers.size() && !spec.empty(); ++i)
      if (layers[i].mechanism != (is_softmax ? "softmax" : own->attention[i].mechanism))
        throw Error(
            ErrorCode::unsupported_format,
            "attention: says " + quote(spec) + ", and " + std::string(kConfigKey) + " has another",
            file().string());
    return own->attention;
  }
  if (spec.empty()) layers.clear();
  return layers;
}

double Checkpoint::stored_base() const {
  constexpr double kUsual = 100;
  const auto table = std::ranges::find_if(tensors(), [](const TensorView& tensor) {
    return tensor.name.ends_with("rope_embed.periods");
  });
  if (table == tensors().end()) return kUsual;
  const at::Tensor periods = copy_of(*table).to(at::kDouble).flatten();
  const std::int64_t count = periods.numel();
  if (count < 2) return kUsual;
  const at::Tensor exponents = at::arange(count, at::kDouble) / static_cast<double>(count);
  const double base = std::pow(periods[-1].item<double>(), 1 / exponents[-1].item<double>());
  constexpr double kRounding = 1e-2;  // bfloat16 is within 2^-8 of a period
  if (!(base > 1) || !at::allclose(periods, at::pow(base, exponents), kRounding))
    throw Error(ErrorCode::unsupported_format,
                "its periods are not powers of one base, the only ones that are computed",
                table->name);
  return std::abs(base / kUsual - 1) < 2 * kRounding ? kUsual : base;
}

void Checkpoint::deduce_positions(VitConfig& config) const {
  if (find("pos_embed") != nullptr && !model::has_table(config.pos_embed))
    config.pos_embed = model::PosEmbed::learned;
  if (own_config() || config.depth < 1 || config.depth > 1024) return;
  const HubConfig* hub = hub_of_others();
  const bool says_rotations = hub != nullptr && hub->rotations;
  if (config.rel_pos.empty() && (says_rotations || mapping_.layout->dinov3)) {
    config.rel_pos.push_back(says_rotations ? *hub->rotations : dinov3_rotations(stored_base()));
    if (find("pos_embed") == nullptr) config.pos_embed = model::PosEmbed::none;
  }
  // An architecture's rule is the same in all of its layers.
  if (!config.rel_pos.empty())
    config.rel_pos.resize(static_cast<std::size_t>(config.depth), config.rel_pos.front());
  model::PositionSpec rule;
  const NamedTensor* network = find("blocks.0.attn.rel_pos.mlp.fc1.weight");
  if (find("blocks.0.attn.rope.freqs") != nullptr) {
    rule = {"rope", {{"variant", "mixed"}, {"base", "10"}}};
  } else if (network != nullptr && network->shape && !network->shape->empty()) {
    rule = {"relbias", {{"table", "mlp"}, {"hidden", std::to_string(network->shape->front())}}};
  } else if (find("blocks.0.attn.rel_pos.relative_position_bias_table") != nullptr) {
    rule = {"relbias", {}};
  } else {
    return;
  }
  config.rel_pos.assign(static_cast<std::size_t>(config.depth), rule);
  if (find("pos_embed") == nullptr) config.pos_embed = model::PosEmbed::none;
}

std::string Checkpoint::architecture_name() const {
  const HubConfig* hub = hub_of_others();
  return hub != nullptr && !hub->architecture.empty() ? hub->architecture : metadata("arch");
}

std::optional<std::int64_t> Checkpoint::said_num_heads(std::int64_t embed_dim) const {
  if (const auto own = own_config()) return own->num_heads;
  if (const HubConfig* hub = hub_of_others(); hub != nullptr && hub->num_heads)
    return hub->num_heads;
  const std::string name = architecture_name();
  if (const auto* timm = model::find_timm_model(name);
      timm != nullptr && timm->embed_dim == embed_dim)
    return timm->num_heads;
  const auto architecture = model::find_architecture(name);
  if (architecture && architecture->config.embed_dim == embed_dim)
    return architecture->config.num_heads;
  return std::nullopt;
}

VitConfig Checkpoint::stored_layers(std::int64_t depth) const {
  VitConfig stored;
  if (const auto own = own_config()) {
    stored = *own;
  } else if (named_positions_) {
    stored.rel_pos = *named_positions_;
  } else if (const auto architecture = model::find_architecture(architecture_name())) {
    stored = architecture->config;
  }
  // Shared blocks stand for any number of layers.
  if (stored.share_blocks > 0) depth = stored.depth;
  stored.depth = depth;
  stored.attention = stored_attention(depth);
  deduce_positions(stored);
  stored.attention.resize(static_cast<std::size_t>(depth));
  stored.rel_pos.resize(static_cast<std::size_t>(depth));
  return stored;
}

void Checkpoint::complete(VitConfig& config, const HeadOptions& head) {
  if (const auto own = own_config()) {
    config.residual = own->residual;
    config.share_blocks = own->share_blocks;
    if (own->share_blocks > 0) config.depth = own->depth;
    config.step_embed = own->step_embed;
    config.halting = own->halting;
    config.gate_scale = own->gate_scale;
    config.gate_center = own->gate_center;
  }
  config.num_classes = num_classes(head, config.num_classes);
  config.layer_norm_eps = said_layer_norm_eps().value_or(config.layer_norm_eps);
  // A file of another width does not fit at all, which loading says.
  const NamedTensor* patch = find("patch_embed.proj.weight");
  const bool is_as_wide = patch != nullptr && patch->shape && !patch->shape->empty() &&
                          patch->shape->front() == config.embed_dim;
  if (const auto said = said_num_heads(config.embed_dim);
      is_as_wide && said && *said != config.num_heads) {
    throw Error(
        ErrorCode::invalid_argument,
        config.arch + " has " + std::to_string(config.num_heads) + " attention heads, the file's " +
            (hub_of_others() != nullptr && hub_.file != file() ? "config.json" : "metadata") +
            " says " + std::to_string(*said),
        file().string());
  }
  config.fc_norm = find("fc_norm.weight") != nullptr;
  if (config.fc_norm) config.global_pool = model::Pooling::avg;
  if (const HubConfig* hub = hub_of_others();
      hub != nullptr && hub->global_pool && !hub->pooling_is_of_name)
    config.global_pool = *hub->global_pool;
  config.attention = stored_attention(config.depth);
  if (resamples_as_hugging_face()) config.pos_interp = model::PosInterp::hf;
  named_positions_ = config.rel_pos;
  // The parts that no tensor shows: the file's own, or the configuration's beside it.
  VitConfig said = config;
  if (const auto own = own_config())
    said = *own;
  else if (const HubConfig* hub = hub_of_others())
    hub->apply_to(said);
  if (!is_own()) read_activation(said);
  if (said.act != config.act || said.post_norm != config.post_norm)
    throw Error(ErrorCode::invalid_argument,
                config.arch + " has another activation or another order of norms than the file's " +
                    (is_own() ? "metadata say" : "config.json says"),
                file().string());
  if (const auto own = own_config()) {
    config.global_pool = own->global_pool;
    config.pos_interp = own->pos_interp;
    config.overview = own->overview;
    config.pos_embed = own->pos_embed;
    config.rel_pos = own->rel_pos;
  }
  deduce_positions(config);
  std::erase(notes_, assumptions_);
}

bool Checkpoint::resamples_as_hugging_face() const {
  // Dinov2WithRegistersModel, which has scales in its layers, alone has `antialias`, as timm.
  const bool has_antialias = find("reg_token") != nullptr && find("blocks.0.ls1.gamma") != nullptr;
  return mapping_.layout->origin == Origin::hugging_face && !has_antialias;
}

VitConfig Checkpoint::deduce_config(const HeadOptions& head) const {
  const std::string subject = file().string();
  const auto expect_rank = [&](std::string_view name,
                               std::size_t rank) -> const std::vector<std::int64_t>& {
    const NamedTensor* tensor = find(name);
    const std::string spelled = mapping_.file_names(name).front();
    if (tensor == nullptr || !tensor->shape)
      throw Error(ErrorCode::failed, spelled + " is missing", subject);
    if (tensor->shape->size() != rank) {
      throw Error(ErrorCode::failed,
                  spelled + ": expected " + std::to_string(rank) + " dimensions, found " +
                      shape_text(*tensor->shape),
                  subject);
    }
    return *tensor->shape;
  };

  const std::optional<VitConfig> own = own_config();
  const HubConfig* hub = hub_of_others();
  const std::string arch = architecture_name();
  if (hub != nullptr) hub->check_is_known();
  if (const std::string why = is_own() ? "" : model::why_not_computed(arch); !why.empty())
    throw Error(ErrorCode::unsupported_format, "the architecture " + arch + " " + why, subject);
  VitConfig config;
  std::optional<std::int64_t> said_classes;
  const bool says_pooling = own || (hub != nullptr && hub->global_pool);
  if (own) {
    config = *own;
    said_classes = config.num_classes;
    const auto expect = [&](const char* key, const std::string& value) {
      const auto said = metadata().find(key);
      if (said != metadata().end() && said->second != value)
        throw Error(ErrorCode::unsupported_format,
                    std::string(key) + ": expected " + quote(value) + " as in " +
                        std::string(kConfigKey) + ", found " + quote(said->second),
                    subject);
    };
    expect("arch", config.arch);
    expect("num_classes", std::to_string(config.num_classes));
    expect("img_size", stored_size(config));
  } else {
    if (const auto architecture = model::find_architecture(arch)) {
      config = architecture->config;
      said_classes = config.num_classes;
    } else if (const model::TimmModel* const timm = model::find_timm_model(arch);
               timm != nullptr && !timm->rotations.empty()) {
      config.rel_pos = {rotations_of(*timm)};
      config.pos_embed = model::PosEmbed::none;  // a tensor shows another one
    }
    if (hub != nullptr) {
      hub->apply_to(config);
      if (hub->num_classes) said_classes = hub->num_classes;
    }
    config.layer_norm_eps = said_layer_norm_eps().value_or(config.layer_norm_eps);
    if (resamples_as_hugging_face()) config.pos_interp = model::PosInterp::hf;
    read_activation(config);
  }
  if (!is_own()) refuse_foreign_parts(head.reset || head.num_classes);
  const image::Size said_size{config.img_height, config.img_width};

  const std::vector<std::int64_t>& patch = expect_rank("patch_embed.proj.weight", 4);
  config.embed_dim = patch[0];
  config.in_chans = patch[1];
  if (patch[2] != patch[3])
    throw Error(ErrorCode::failed, "patches that are not square: " + shape_text(patch), subject);
  config.patch_size = patch[2];
  if (config.share_blocks == 0)
    config.depth = count_blocks();
  else if (count_blocks() != config.share_blocks)
    throw Error(ErrorCode::failed,
                "share_blocks says " + std::to_string(config.share_blocks) + ", the tensors show " +
                    std::to_string(count_blocks()) + " blocks",
                subject);
  config.class_token = find("cls_token") != nullptr;
  config.distilled = find("dist_token") != nullptr;
  config.reg_tokens = find("reg_token") != nullptr ? expect_rank("reg_token", 3)[1] : 0;
  config.layer_scale = find("blocks.0.ls1.gamma") != nullptr;
  config.fc_norm = find("fc_norm.weight") != nullptr;
  config.qkv_bias = find("blocks.0.attn.qkv.bias") != nullptr;
  config.norm_pre = find("norm_pre.weight") != nullptr;
  config.patch_norm = find("patch_embed.norm.weight") != nullptr;
  const auto has_any = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return find(name) != nullptr; });
  };
  if (!own && mapping_.layout->native) {
    // A damaged file lacks one bias, or the weight as well.
    config.rms_norm =
        find("blocks.0.norm1.weight") != nullptr &&
        !has_any({"blocks.0.norm1.bias", "blocks.0.norm2.bias", "norm.bias", "fc_norm.bias"});
    config.proj_bias =
        find("blocks.0.attn.proj.weight") == nullptr ||
        has_any({"blocks.0.attn.proj.bias", "blocks.0.mlp.fc1.bias", "blocks.0.mlp.fc2.bias"});
  }
  // A network without the one has the other; a file that lacks the bias alone is damaged.
  if (!own) config.patch_bias = find("patch_embed.proj.bias") != nullptr || !config.norm_pre;
  config.scale_attn = find("blocks.0.attn.norm.weight") != nullptr;
  if (mapping_.pools_mean) config.final_norm = false;
  config.final_norm = config.final_norm || find("norm.weight") != nullptr || config.fc_norm;
  const bool has_pool = find("attn_pool.latent") != nullptr;
  if (has_pool && !says_pooling) config.global_pool = model::Pooling::map;
  if (has_pool && config.global_pool != model::Pooling::map)
    throw Error(ErrorCode::invalid_argument,
                "global_pool says " + std::string(name(config.global_pool)) +
                    ", the tensors show attention pooling",
                subject);
  const bool says_act = hub != nullptr && (hub->act || !hub->activation.empty());
  if (!own && !says_act && mapping_.layout->native &&
      (config.norm_pre || config.scale_attn || has_pool || config.rms_norm || config.patch_norm ||
       !config.proj_bias))
    throw Error(ErrorCode::failed,
                "nothing says which activation its MLPs and which eps its norms have, and models "
                "of these parts differ in it",
                subject, "put timm's config.json beside it");
  if (!says_pooling && !has_pool && (!config.class_token || config.fc_norm || mapping_.pools_mean))
    config.global_pool = model::Pooling::avg;
  config.num_classes = num_classes(head, said_classes);
  std::int64_t hidden = expect_rank("blocks.0.mlp.fc1.weight", 2)[0];
  // If fc1 gives twice the features that fc2 takes, half of them are a gate.
  const NamedTensor* fc2 = find("blocks.0.mlp.fc2.weight");
  config.swiglu_mlp = fc2 != nullptr && fc2->shape && fc2->shape->size() == 2 && hidden > 0 &&
                      hidden % 2 == 0 && fc2->shape->back() == hidden / 2;
  if (config.swiglu_mlp) hidden /= 2;
  config.scale_mlp = find("blocks.0.mlp.norm.weight") != nullptr;
  config.mlp_ratio = static_cast<double>(hidden) /
                     static_cast<double>(std::max<std::int64_t>(config.embed_dim, 1));
  // Tensors without elements may claim any size: the others must prove a size taken from one of
  // their dimensions.
  const auto expect_last = [&](std::string_view name, std::size_t rank) {
    const std::vector<std::int64_t>& shape = expect_rank(name, rank);
    if (shape.back() == config.embed_dim) return;
    throw Error(ErrorCode::failed,
                mapping_.file_names(name).front() + ": expected a last dimension of " +
                    std::to_string(config.embed_dim) + ", found " + shape_text(shape),
                subject);
  };
  deduce_positions(config);
  // EVA-02's rotations are in no tensor, and its table works without them.
  const NamedTensor* bias = find("blocks.0.attn.qkv.bias");
  if (!own && mapping_.layout->native && config.swiglu_mlp && config.rel_pos.empty() &&
      bias != nullptr && bias->parts.size() == kJoined)
    throw Error(ErrorCode::failed,
                "gated MLPs and biases of queries and values by themselves are EVA-02's, and " +
                    (arch.empty() ? "nothing says" : "'" + arch + "' does not say") +
                    " how its queries and keys are turned",
                subject, kNameIt);
  // timm's models of relative positions normalise before their branches if they have LayerScale.
  if (!own && arch.empty() && find("blocks.0.attn.rel_pos.mlp.fc1.weight") != nullptr &&
      !config.layer_scale)
    throw Error(ErrorCode::failed,
                "nothing says whether its blocks normalise before or behind their branches",
                subject, kNameIt);
  const bool has_table = model::has_table(config.pos_embed);
  if (has_table && find("pos_embed") == nullptr)
    throw Error(ErrorCode::failed, mapping_.file_names("pos_embed").front() + " is missing",
                subject, kNameIt);
  if (has_table) expect_last("pos_embed", 3);
  expect_last("blocks.0.mlp.fc1.weight", 2);
  if (find("reg_token") != nullptr) expect_last("reg_token", 3);
  if (!head.reset && find("head.weight") != nullptr) {
    // Dinov2ForImageClassification.
    if (expect_rank("head.weight", 2).back() == 2 * config.embed_dim)
      throw Error(ErrorCode::unsupported_format,
                  mapping_.file_names("head.weight").front() +
                      " classifies the class token and the mean of the patches side by side, which "
                      "this program does not compute",
                  subject, new_head_hint(head));
    expect_last("head.weight", 2);
  }
  if (has_table) {
    deduce_grid(config, expect_rank("pos_embed", 3)[1], subject);
  } else if (config.patch_size > 0) {
    // Nothing shows the size; pixels at the right and bottom that fill no patch are in no position.
    config.img_height -= config.img_height % config.patch_size;
    config.img_width -= config.img_width % config.patch_size;
  }
  if (!own) scale_rotations(config, said_size, subject);
  if (!own && mapping_.layout->native) {
    const NamedTensor* scale = find("blocks.0.ls1.gamma");
    const bool has_gammas = scale != nullptr && scale->parts.front() != nullptr &&
                            scale->parts.front()->name.ends_with("gamma_1");
    // EasyCV's files have the wrapper, and a note of their own.
    const bool is_of_easycv = !stripped().empty() && stripped().back() == "backbone.";
    if (hub == nullptr && arch.empty())
      refuse_ambiguous(config, has_gammas && !is_of_easycv, subject);
    if (!model::find_architecture(arch) && (hub == nullptr || !hub->img_height))
      refuse_unknown_size(config, subject);
  }
  // timm resamples a table of another size when it loads it, Hugging Face does not.
  if (hub != nullptr && hub->kind == HubConfig::Kind::hugging_face && hub->img_height &&
      has_table &&
      (config.grid_rows() != said_size.height / config.patch_size ||
       config.grid_columns() != said_size.width / config.patch_size)) {
    throw Error(ErrorCode::invalid_argument,
                "image_size says " + std::to_string(said_size.height) + "x" +
                    std::to_string(said_size.width) + ", the table of positions is of " +
                    std::to_string(config.img_height) + "x" + std::to_string(config.img_width),
                hub->file.string(), "does it belong to these weights?");
  }
  config.arch = arch.empty() ? "vit" : arch;
  if (config.depth >= 1 && config.depth <= 1024) config.attention = stored_attention(config.depth);
  if (hub != nullptr) {
    hub->check(config);
    if (!head.reset && !head.num_classes && config.num_classes > 0)
      hub->check_classes(config.num_classes);
  }
  if (const auto heads = said_num_heads(config.embed_dim)) {
    config.num_heads = *heads;
  } else if (const auto usual = model::usual_num_heads(config.embed_dim, config.class_token)) {
    config.num_heads = *usual;  // noted when the file was opened
  } else {
    refuse_unknown_heads(config, subject);
  }
  model::validate(config);
  check_size(config, tensors(), subject);
  return config;
}

}  // namespace hydrascope::checkpoint
