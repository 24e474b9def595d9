#include "model/checkpoint/checkpoint.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors_header.h"
#include "model/config/architectures.h"

#include <algorithm>
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
  std::vector<std::string> keys;
  for (const TensorView& view : tensors()) keys.push_back(view.name);
  mapping_ = map_keys(keys, this->file().string());
  name_tensors();
  add_notes();
  read_hub();
  note_assumed_heads();
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
      throw Error(ErrorCode::failed, "two tensors stand for " + target, file().string());
    }
    tensor.parts[slot] = &tensors()[i];
  }
  // Keys of EVA's have no bias where queries and values have one.
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
    if (!tensor.parts.empty())
      throw Error(ErrorCode::failed, "two tensors stand for its rope.freqs", file().string());
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
  if (!entry().empty()) notes_.push_back("the weights are '" + entry() + "' of the file");
  if (contents_.has_unused_ema())
    notes_.push_back("the file also holds averaged weights: `use_ema` takes them");
  std::string prefixes;
  for (const std::string& prefix : stripped()) prefixes += prefix;
  if (prefixes.empty()) return;
  notes_.push_back("stripped '" + prefixes + "' from the names of the tensors");
  // EasyCV's published Hydra models: DeiT-B whose last 8 or all 12 layers run Hydra attention.
  if (stripped().back() == "backbone." && metadata("attention").empty()) {
    notes_.push_back("the file does not say which attention its layers use: `attention` does");
  }
}

void Checkpoint::read_hub() {
  HubConfig hub;
  try {
    hub = read_hub_config(file().parent_path());
    if (is_own() && hub.kind != HubConfig::Kind::none) {
      const model::VitConfig config = deduce_config();
      hub.check(config);
      if (!hub.labels.empty() && std::cmp_not_equal(hub.labels.size(), config.num_classes)) {
        if (metadata("labels").empty() && metadata(kLabelNamesKey).empty())
          notes_.push_back(hub.file.string() + " names " + std::to_string(hub.labels.size()) +
                           " classes, the model has " + std::to_string(config.num_classes) +
                           ": the names are not used");
        hub.labels.clear();
      }
    }
  } catch (const Error& error) {
    if (!is_own()) throw;
    notes_.push_back(error.subject() + " is not used: " + error.what());
    return;
  }
  hub_ = std::move(hub);
  if (is_own()) return;
  std::ranges::copy(hub_.notes, std::back_inserter(notes_));
  if (!mapping_.layout->native && hub_.kind == HubConfig::Kind::none) {
    notes_.push_back(
        "no config.json of Hugging Face beside the weights: its LayerNorm eps of 1e-12 is assumed");
  }
}

void Checkpoint::note_assumed_heads() {
  if (is_own() && !metadata(kConfigKey).empty()) return;
  const NamedTensor* patch = find("patch_embed.proj.weight");
  if (patch == nullptr || !patch->shape || patch->shape->empty()) return;
  const std::int64_t width = patch->shape->front();
  const auto heads = model::usual_num_heads(width, find("cls_token") != nullptr);
  if (!heads || said_num_heads(width)) return;
  assumed_heads_ = "nothing says how many attention heads it has: " + std::to_string(*heads) +
                   " are assumed, as in timm's models of " + std::to_string(width) + " features";
  notes_.push_back(assumed_heads_);
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
