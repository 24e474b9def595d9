#include "model/checkpoint/checkpoint.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/safetensors_header.h"
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

}  // namespace

bool NamedTensor::is_complete() const { return std::ranges::find(parts, nullptr) == parts.end(); }

Checkpoint::Checkpoint(WeightFile file) : contents_(std::move(file)) {
  check_is_model(tensors(), this->file());
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
  add_notes();
  settle_hub();
  note_assumptions();
}

Checkpoint Checkpoint::open(const std::filesystem::path& path, const WeightFileOptions& options) {
  return Checkpoint(WeightFile::open(path, options));
}

void Checkpoint::name_tensors() {
  std::map<std::string, NamedTensor> named;
  for (std::size_t i = 0; i < tensors().size(); ++i) {
    const auto& [target, part, parts] = mapping_.keys[i];
    if (target.empty()) continue;
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
  // Keys of EVA's models have no bias, queries and values have one.
  const auto lacks_key_bias = [&](const auto& item) {
    const auto& [name, tensor] = item;
    return mapping_.layout->native && name.ends_with(".attn.qkv.bias") &&
           tensor.parts.size() == kJoined && tensor.parts[0] != nullptr &&
           tensor.parts[1] == nullptr && tensor.parts[2] != nullptr;
  };
  for (const auto& item : named) {
    if (lacks_key_bias(item))
      zeros_.resize(std::max(zeros_.size(), item.second.parts[0]->data.size()));
  }
  for (auto& item : named) {
    if (!lacks_key_bias(item)) continue;
    TensorView& zeros = derived_.emplace_back(*item.second.parts[0]);
    zeros.data = std::span(zeros_).first(zeros.data.size());
    item.second.parts[1] = &zeros;
  }
  // DeiTForImageClassification keeps the distillation token and classifies without it.
  if (!mapping_.layout->native && named.contains("dist_token") && named.contains("head.weight") &&
      !named.contains("head_dist.weight")) {
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

void Checkpoint::share_out(const TensorView& of_all, std::map<std::string, NamedTensor>& named) {
  const std::vector<std::int64_t>& shape = of_all.shape;
  constexpr std::int64_t kMostLayers = 1024;
  if (shape[0] != 2 || shape[1] < 1 || shape[1] > kMostLayers || of_all.data.empty()) {
    throw Error(ErrorCode::failed,
                of_all.name + ": expected (2, layers, heads, features), found " + shape_text(shape),
                file().string());
  }
  const std::size_t bytes = of_all.data.size() / static_cast<std::size_t>(2 * shape[1]);
  for (std::int64_t layer = 0; layer < shape[1]; ++layer) {
    NamedTensor& tensor = named["blocks." + std::to_string(layer) + ".attn.rope.freqs"];
    if (!tensor.parts.empty()) {
      throw Error(ErrorCode::failed,
                  of_all.name + " and a tensor of the block's own stand both for blocks." +
                      std::to_string(layer) + ".attn.rope.freqs",
                  file().string());
    }
    for (std::int64_t axis = 0; axis < 2; ++axis) {
      TensorView& part = derived_.emplace_back(of_all);
      part.shape = {1, shape[2], shape[3]};
      part.data =
          of_all.data.subspan(static_cast<std::size_t>(axis * shape[1] + layer) * bytes, bytes);
      tensor.parts.push_back(&part);
    }
  }
}

void Checkpoint::add_notes() {
  std::ranges::copy(contents_.notes(), std::back_inserter(notes_));
  if (!entry().empty()) notes_.push_back("the weights are '" + entry() + "' of the file");
  if (contents_.has_unused_ema())
    notes_.push_back("the file also holds averaged weights: `use_ema` takes them");
  std::string prefixes;
  for (const std::string& prefix : stripped()) prefixes += prefix;
  if (prefixes.empty()) return;
  notes_.push_back("stripped '" + prefixes + "' from the names of the tensors");
  // EasyCV's published Hydra models: DeiT-B whose last 8 or all 12 layers run Hydra attention.
  if (stripped().back() == "backbone." && metadata("attention").empty()) {
    notes_.push_back("the file does not say which attention its layers use: `attn` does");
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
  if (!mapping_.layout->native && hub_.kind != HubConfig::Kind::hugging_face) {
    notes_.push_back(
        "no config.json of Hugging Face beside the weights: its LayerNorm eps of 1e-12 and exact "
        "GELU are assumed");
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

const NamedTensor* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(named_, name, {}, &NamedTensor::name);
  return found == named_.end() || found->name != name ? nullptr : &*found;
}

}  // namespace hydrascope::checkpoint
