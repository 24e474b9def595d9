#include "model/checkpoint/checkpoint.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/config/architectures.h"
#include "model/config/timm_models.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

/// The shape of parts whose rows are joined.
std::optional<std::vector<std::int64_t>> joined_shape(const std::vector<const TensorView*>& parts) {
  if (std::ranges::find(parts, nullptr) != parts.end()) return std::nullopt;
  std::vector<std::int64_t> shape = parts.front()->shape;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::vector<std::int64_t>& other = parts[i]->shape;
    if (shape.empty() || other.size() != shape.size() ||
        !std::equal(shape.begin() + 1, shape.end(), other.begin() + 1)) {
      return std::nullopt;
    }
    shape.front() += other.front();
  }
  return shape;
}

/// Whether it is a whole number of at least `least` that a size or a number of classes may be.
bool is_count(std::string_view text, std::int64_t least) {
  constexpr std::int64_t kMost = 10'000'000;
  const auto number = parse_number<std::int64_t>(text);
  return number && *number >= least && *number <= kMost;
}

/// Refuses values that files of this program have under none of its keys.
void check_own(const Metadata& metadata, const std::string& file) {
  const auto expect = [&](std::string_view key, const std::string& what, auto is_right) {
    const auto found = metadata.find(std::string(key));
    if (found != metadata.end() && !is_right(std::string_view(found->second)))
      throw Error(ErrorCode::unsupported_format,
                  std::string(key) + ": expected " + what + ", found " + quote(found->second),
                  file);
  };
  expect(kSchemaKey, quote(kSchema) + ", which this version reads",
         [](std::string_view text) { return text == kSchema; });
  expect("img_size", "N or HxW", [](std::string_view text) {
    const auto cross = text.find('x');
    return is_count(text.substr(0, cross), 1) &&
           (cross == text.npos || is_count(text.substr(cross + 1), 1));
  });
  expect("num_classes", "a number of classes",
         [](std::string_view text) { return is_count(text, 0); });
  expect("labels", "the name of a bundled list", is_field);
  const bool has_config = metadata.contains(std::string(kConfigKey));
  expect("arch", "the name of an architecture", [&](std::string_view text) {
    return has_config ||
           model::find_timm_model(text) != nullptr ||  // else `deduce_config` compares
           model::find_architecture(std::string(text)).has_value();
  });
  // `stored_attention` reads it as a whole.
  expect("attention", "mechanisms of layers",
         [](std::string_view text) { return is_field(text.substr(0, text.find_first_of(":,"))); });
  expect("transform", "an object with input_size", [](std::string_view text) {
    return text.starts_with('{') && text.find("\"input_size\"") != text.npos;
  });
}

}  // namespace

bool NamedTensor::is_complete() const { return std::ranges::find(parts, nullptr) == parts.end(); }

Checkpoint::Checkpoint(WeightFile file) : contents_(std::move(file)) {
  check_is_model(tensors(), this->file());
  if (is_own()) check_own(metadata(), this->file().string());
  std::vector<std::string> keys;
  for (const TensorView& view : tensors()) keys.push_back(view.name);
  // The configuration's word on the model is more exact than unknown names.
  try {
    hub_ = read_hub_config(this->file().parent_path());
  } catch (const Error& error) {
    if (!is_own()) throw;
    notes_.push_back(error.subject() + " is not used: " + error.what());
  }
  if (!is_own() && hub_.kind == HubConfig::Kind::none) {
    std::vector<std::string> notes = std::move(hub_.notes);
    hub_ = read_training_arguments(metadata(), this->file());
    hub_.notes = std::move(notes);
  }
  try {
    mapping_ = map_keys(keys, this->file().string());
  } catch (const Error&) {
    if (const HubConfig* hub = hub_of_others()) hub->check_is_known();
    throw;
  }
  name_tensors();
  std::ranges::copy(contents_.notes(), std::back_inserter(notes_));
  if (!entry().empty()) notes_.push_back("the weights are '" + entry() + "' of the file");
  if (contents_.has_unused_ema())
    notes_.push_back("the file also holds averaged weights: `use_ema` takes them");
  for (const std::string& part : mapping_.left_out()) notes_.push_back("left out: " + part);
  std::string prefixes;
  for (const std::string& prefix : stripped()) prefixes += prefix;
  if (!prefixes.empty())
    notes_.push_back("stripped '" + prefixes + "' from the names of the tensors");
  // EasyCV's published Hydra models: DeiT-B whose last 8 or all 12 layers run Hydra attention.
  if (!stripped().empty() && stripped().back() == "backbone." && metadata("attention").empty())
    notes_.push_back("the file does not say which attention its layers use: `attn` does");
  settle_hub();
  note_assumptions();
}

Checkpoint Checkpoint::open(const std::filesystem::path& path, const WeightFileOptions& options) {
  return Checkpoint(WeightFile::open(path, options));
}

void Checkpoint::name_tensors() {
  std::map<std::string, NamedTensor> named;
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const auto& [target, part, parts, form, left_out] = mapping_.keys[i];
    if (target.empty() || form == Form::no_key_bias) continue;
    if (target == "rope.freqs" && tensors()[i].shape.size() == 4) {
      share_out(tensors()[i], named);
      continue;
    }
    NamedTensor& tensor = named[target];
    if (tensor.parts.empty()) tensor.parts.resize(part == kWhole ? 1 : parts);
    const auto slot = static_cast<std::size_t>(part == kWhole ? 0 : part);
    if (slot >= tensor.parts.size() || tensor.parts[slot] != nullptr) {
      const TensorView* other = slot < tensor.parts.size() ? tensor.parts[slot] : nullptr;
      if (other == nullptr)
        for (const TensorView* each : tensor.parts) other = each != nullptr ? each : other;
      throw Error(ErrorCode::failed,
                  (other == nullptr ? "" : other->name + " and ") + tensors()[i].name +
                      " stand both for " + target,
                  file().string());
    }
    tensor.parts[slot] = &tensors()[i];
  }
  reform(named);
  // DeiTForImageClassification keeps the distillation token and classifies without it.
  if (mapping_.layout->origin == Origin::hugging_face && named.contains("dist_token") &&
      named.contains("head.weight") && !named.contains("head_dist.weight")) {
    named["reg_token"] = std::move(named["dist_token"]);
    named.erase("dist_token");
    notes_.push_back("the distillation token has no classifier of its own: it is a register here");
  }
  // A norm behind the choice of the class token equals the same norm before the choice.
  if (const HubConfig* hub = hub_of_others();
      hub != nullptr && hub->global_pool == model::Pooling::token && !hub->pooling_is_of_name &&
      !named.contains("norm.weight")) {
    for (const std::string of : {"weight", "bias"}) {
      const auto found = named.find("fc_norm." + of);
      if (found == named.end()) continue;
      named["norm." + of] = std::move(found->second);
      named.erase("fc_norm." + of);
    }
  }
  for (auto& [name, tensor] : named) {
    tensor.name = name;
    tensor.shape = joined_shape(tensor.parts);
    named_.push_back(std::move(tensor));
  }
}

void Checkpoint::reform(std::map<std::string, NamedTensor>& named) {
  // The parts of a tensor whose shape is not what `Form` needs stay; the loader names them.
  const auto whole = [&](const std::string& name, std::size_t rank) -> const TensorView* {
    const auto found = named.find(name);
    if (found == named.end() || found->second.parts.size() != 1) return nullptr;
    const TensorView* part = found->second.parts.front();
    return part->shape.size() == rank && !part->data.empty() ? part : nullptr;
  };
  const auto put = [&](const std::string& name, const TensorView* part) {
    named[name].parts = {part};
  };
  for (const MappedKey& key : mapping_.keys) {
    const bool is_transposed = key.form == Form::transposed_projection;
    if (key.form == Form::tokens) {
      if (const TensorView* token = whole(key.target, 1))
        put(key.target, derived_.reshaped(*token, {1, 1, token->shape[0]}));
      if (const TensorView* table = whole(key.target, 2))
        put(key.target, derived_.reshaped(*table, {1, table->shape[0], table->shape[1]}));
    } else if (key.form == Form::projection || is_transposed) {
      const TensorView* weight = whole(key.target, 2);
      if (weight == nullptr || named.contains("head.bias")) continue;
      if (is_transposed) put(key.target, derived_.transposed(*weight));
      put("head.bias", derived_.zeros(*weight, {weight->shape[is_transposed ? 1 : 0]}));
    } else if (key.form == Form::unplaced) {
      const TensorView* registers = whole(key.target, 3);
      const TensorView* table = whole("pos_embed", 3);
      if (registers == nullptr || table == nullptr || table->shape[0] != 1 ||
          table->shape[2] != registers->shape[2])
        continue;
      put("pos_embed",
          derived_.with_rows(*table, named.contains("cls_token") ? 1 : 0, registers->shape[1]));
    } else if (key.form == Form::no_key_bias) {
      const TensorView* bias = whole(key.target, 1);
      if (bias != nullptr && bias->shape[0] % kJoined == 0)
        put(key.target, derived_.zeroed(*bias, bias->shape[0] / kJoined, bias->shape[0] / kJoined));
    }
  }
  // Keys of EVA's, BEiT's and DINOv3's models have no bias, queries and values have one.
  const auto has_key_bias = [](const auto& item) {
    return item.first.ends_with(".attn.qkv.bias") && item.second.parts.size() == kJoined &&
           item.second.parts[1] != nullptr;
  };
  if (std::ranges::none_of(named, has_key_bias)) {
    for (auto& [name, tensor] : named) {
      if (name.ends_with(".attn.qkv.bias") && tensor.parts.size() == kJoined &&
          tensor.parts[0] != nullptr && tensor.parts[2] != nullptr)
        tensor.parts[1] = derived_.zeros(*tensor.parts[0], tensor.parts[0]->shape);
    }
  }
  for (const std::string of : {"weight", "bias"}) {
    const std::string rows = std::string(kPoolingRows) + of;
    const TensorView* joined = whole(rows, of == "weight" ? 2 : 1);
    if (joined == nullptr || joined->shape[0] % kJoined != 0) continue;
    const std::int64_t third = joined->shape[0] / kJoined;
    put("attn_pool.q." + of, derived_.rows(*joined, 0, third));
    put("attn_pool.kv." + of, derived_.rows(*joined, third, 2 * third));
    named.erase(rows);
  }
  std::vector<std::string> blocks;
  std::vector<std::string> shared;
  for (const auto& item : named) {
    constexpr std::string_view kEnd = ".attn.qkv.weight";
    if (item.first.ends_with(kEnd))
      blocks.push_back(item.first.substr(0, item.first.size() - kEnd.size()));
    if (item.first.starts_with(kSharedPositions)) shared.push_back(item.first);
  }
  for (const std::string& name : shared) {
    const NamedTensor of_all = named.extract(name).mapped();
    for (const std::string& block : blocks) {
      const std::string own = block + ".attn.rel_pos." + name.substr(kSharedPositions.size());
      if (!named.emplace(own, of_all).second)
        throw Error(ErrorCode::unsupported_format,
                    "relative positions of all layers beside the layers' own are not computed",
                    file().string());
    }
  }
}

void Checkpoint::share_out(const TensorView& of_all, std::map<std::string, NamedTensor>& named) {
  const std::vector<std::int64_t>& shape = of_all.shape;
  constexpr std::int64_t kMostLayers = 1024;
  if (shape[0] != 2 || shape[1] < 1 || shape[1] > kMostLayers || of_all.data.empty()) {
    throw Error(ErrorCode::failed,
                of_all.name + ": expected (2, layers, heads, features), found " + shape_text(shape),
                file().string());
  }
  const TensorView* layers = derived_.reshaped(of_all, {2 * shape[1], shape[2], shape[3]});
  for (std::int64_t layer = 0; layer < shape[1]; ++layer) {
    NamedTensor& tensor = named["blocks." + std::to_string(layer) + ".attn.rope.freqs"];
    if (!tensor.parts.empty()) {
      throw Error(ErrorCode::failed,
                  of_all.name + " and a tensor of the block's own stand both for blocks." +
                      std::to_string(layer) + ".attn.rope.freqs",
                  file().string());
    }
    for (std::int64_t axis = 0; axis < 2; ++axis)
      tensor.parts.push_back(derived_.rows(*layers, axis * shape[1] + layer, 1));
  }
}

void Checkpoint::settle_hub() {
  if (is_own() && hub_.kind != HubConfig::Kind::none) {
    try {
      const model::VitConfig config = deduce_config();
      hub_.check(config);
      if (!hub_.labels.empty() && std::cmp_not_equal(hub_.labels.size(), config.num_classes)) {
        if (metadata("labels").empty() && metadata(kLabelNamesKey).empty())
          notes_.push_back(hub_.file.string() + " names " + std::to_string(hub_.labels.size()) +
                           " classes, the model has " + std::to_string(config.num_classes) +
                           ": the names are not used");
        hub_.labels.clear();
      }
    } catch (const Error& error) {
      notes_.push_back(error.subject() + " is not used: " + error.what());
      hub_ = {};
    }
  }
  if (is_own()) return;
  std::ranges::copy(hub_.notes, std::back_inserter(notes_));
  if (hub_.num_classes && find("head.weight") == nullptr)
    notes_.push_back(hub_.file.string() + " says " + std::to_string(*hub_.num_classes) +
                     " classes, the weights have no classifier");
  const Layout& layout = *mapping_.layout;
  if (layout.origin == Origin::hugging_face && hub_.kind != HubConfig::Kind::hugging_face &&
      !layout.activation.empty()) {
    notes_.push_back("no config.json of Hugging Face beside the weights: its LayerNorm eps of " +
                     shortest_number(layout.layer_norm_eps) + " and " +
                     (layout.activation == "gelu" ? "exact" : "tanh") + " GELU are assumed");
  }
}

std::int64_t Checkpoint::count_blocks() const {
  std::int64_t depth = 0;
  for (const NamedTensor& tensor : named_) {
    constexpr std::string_view kPrefix = "blocks.";
    if (!tensor.name.starts_with(kPrefix)) continue;
    std::int64_t layer = 0;
    std::from_chars(tensor.name.data() + kPrefix.size(), tensor.name.data() + tensor.name.size(),
                    layer);
    // A hostile name must not ask for a million layers; validate() bounds the rest.
    depth = std::max(depth, std::min<std::int64_t>(layer, 1 << 20) + 1);
  }
  return depth;
}

void Checkpoint::refuse_foreign_parts(bool new_head) const {
  std::vector<std::string> foreign;
  for (const NamedTensor& tensor : named_) {
    if (is_computed(tensor.name) || (new_head && is_of_head(tensor.name))) continue;
    for (const TensorView* part : tensor.parts)
      if (part != nullptr) foreign.push_back(part->name);
  }
  if (foreign.empty()) return;
  constexpr std::size_t kLongest = 80;
  const std::string first = foreign.front().substr(0, kLongest);
  throw Error(ErrorCode::unsupported_format,
              foreign.size() == 1 ? first + " is a part that this program does not compute"
                                  : first + " and " + std::to_string(foreign.size() - 1) +
                                        " more are parts that this program does not compute",
              file().string());
}

void Checkpoint::note_assumptions() {
  if (is_own() && !metadata(kConfigKey).empty()) return;
  const NamedTensor* patch = find("patch_embed.proj.weight");
  if (patch == nullptr || !patch->shape || patch->shape->size() != 4) return;
  const std::int64_t width = patch->shape->front();
  const std::string name = architecture_name();
  const HubConfig* hub = hub_of_others();
  const auto heads = model::usual_num_heads(width, find("cls_token") != nullptr);
  if (heads && !said_num_heads(width)) {
    assumptions_ = "nothing says how many attention heads it has: " + std::to_string(*heads) +
                   " are assumed, as in timm's models of " + std::to_string(width) + " features";
    if (hub == nullptr && mapping_.layout->native && name.empty())
      assumptions_ += std::string(", as are norms before attention and MLP, ") +
                      (find("blocks.0.attn.rope.freqs") == nullptr ? "no rotations, " : "") +
                      (find("pos_embed") == nullptr ? "pictures of 224 pixels, " : "") +
                      "exact GELU and an eps of 1e-6";
    notes_.push_back(assumptions_);
  }
  if (hub == nullptr) return;
  const std::int64_t depth = count_blocks();
  if (const auto* timm = model::find_timm_model(name);
      timm != nullptr && timm->depth != depth &&
      std::ranges::find(hub->claims, "depth", &HubConfig::Claim::key) == hub->claims.end()) {
    notes_.push_back(hub->file.string() + ": " + name + " has " + std::to_string(timm->depth) +
                     " blocks, the file " + std::to_string(depth) + ", which are computed");
  }
  const NamedTensor* table = find("pos_embed");
  const std::int64_t edge = patch->shape->back();
  if (hub->kind != HubConfig::Kind::timm || !hub->img_height || table == nullptr || !table->shape ||
      table->shape->size() != 3 || edge < 1)
    return;
  const std::int64_t said = (*hub->img_height / edge) * (*hub->img_width / edge);
  const std::int64_t others = table->shape->at(1) - said;
  constexpr std::int64_t kMostPrefixTokens = 32;
  if (others < 0 || others > kMostPrefixTokens)
    notes_.push_back(
        hub->file.string() + " says " + std::to_string(*hub->img_height) + "x" +
        std::to_string(*hub->img_width) +
        " pixels, the table of positions is for another size: it is resampled, as timm does");
}

std::string Checkpoint::label_lines() const {
  const std::string names = is_own() ? metadata(kLabelNamesKey) : "";
  std::string text;
  for (const std::string& line :
       names.empty() ? hub_.labels : parse_label_names(names, file().string())) {
    text += line + '\n';
  }
  return text;
}

std::string Checkpoint::metadata(std::string_view key) const {
  const auto found = metadata().find(std::string(key));
  return found == metadata().end() ? "" : found->second;
}

bool Checkpoint::has_projection() const {
  return std::ranges::any_of(mapping_.keys, [](const auto& key) {
    return key.form == Form::projection || key.form == Form::transposed_projection;
  });
}

const NamedTensor* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(named_, name, {}, &NamedTensor::name);
  return found == named_.end() || found->name != name ? nullptr : &*found;
}

}  // namespace hydrascope::checkpoint
