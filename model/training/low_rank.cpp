#include "model/training/low_rank.h"

#include "kernels/error.h"
#include "kernels/new_file.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/training/training_state.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

namespace hydrascope::model::training {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr const char* kOfState = "lora.";
constexpr const char* kOfPeft = "base_model.model.";

std::string name_of_a(const std::string& layer) { return layer + ".lora_A.weight"; }
std::string name_of_b(const std::string& layer) { return layer + ".lora_B.weight"; }

/// The last part of "blocks.0.attn.qkv".
std::string_view last_part(std::string_view layer) { return layer.substr(layer.rfind('.') + 1); }

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(std::move(word));
  return words;
}

/// "blocks.0.attn.qkv" of a target's weight, else "".
std::string target_layer(const std::string& name, const std::vector<std::string>& targets) {
  if (!name.starts_with("blocks.") || !name.ends_with(kWeight)) return "";
  std::string layer = name.substr(0, name.size() - kWeight.size());
  return std::ranges::find(targets, last_part(layer)) != targets.end() ? layer : "";
}

}  // namespace

LowRankUpdates::LowRankUpdates(VisionTransformerImpl& model, std::vector<ParameterGroup>& groups,
                               LowRankOptions options, std::uint64_t seed)
    : options_(std::move(options)), targets_(words_of(options_.targets)) {
  if (targets_.empty())
    throw Error(ErrorCode::invalid_argument, "there are no linear layers to update",
                "lora.targets");
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto modules = model.named_modules();
  for (ParameterGroup& group : groups) {
    NamedTensors learning;
    for (auto& [name, tensor] : group.parameters) {
      const std::string layer = target_layer(name, targets_);
      const auto* linear = layer.empty() ? nullptr : modules.find(layer);
      auto* of_layer = linear == nullptr ? nullptr : (*linear)->as<torch::nn::LinearImpl>();
      if (of_layer != nullptr) {
        const std::int64_t rank = options_.rank;
        if (rank >= std::min(tensor.size(0), tensor.size(1)))
          throw Error(ErrorCode::invalid_argument,
                      "is no low rank: " + layer + " has " + std::to_string(tensor.size(0)) +
                          " x " + std::to_string(tensor.size(1)),
                      "`lora_rank` " + std::to_string(rank));
        // PEFT's start: kaiming_uniform_(a = sqrt(5)), which is U(-1, 1) / sqrt(in).
        const double bound = 1 / std::sqrt(static_cast<double>(tensor.size(1)));
        at::Tensor a =
            at::empty({rank, tensor.size(1)}, at::kFloat).uniform_(-bound, bound, generator);
        Update update{layer,
                      of_layer,
                      tensor,
                      a.to(tensor.device()),
                      at::zeros({tensor.size(0), rank}, tensor.options()),
                      {}};
        update.a.set_requires_grad(true);
        update.b.set_requires_grad(true);
        learning.emplace_back(name_of_a(layer), update.a);
        learning.emplace_back(name_of_b(layer), update.b);
        updates_.push_back(std::move(update));
      } else if (checkpoint::is_of_head(name) || checkpoint::is_of_exits(name)) {
        heads_.emplace_back(name, tensor);
        learning.emplace_back(name, tensor);
        continue;
      } else if (checkpoint::is_mechanism_tensor(name)) {
        learning.emplace_back(name, tensor);
        is_adapter_ = false;
        continue;
      }
      tensor.set_requires_grad(false);
    }
    group.parameters = std::move(learning);
  }
  std::erase_if(groups, [](const ParameterGroup& group) { return group.parameters.empty(); });
  for (const std::string& target : targets_) {
    if (std::ranges::none_of(
            updates_, [&](const Update& update) { return last_part(update.layer) == target; }))
      throw Error(ErrorCode::invalid_argument, "no linear layer that learns has this name", target,
                  "the blocks have qkv, proj, fc1 and fc2");
  }
}

LowRankUpdates::~LowRankUpdates() { leave(); }

void LowRankUpdates::leave() {
  for (Update& update : updates_) update.linear->weight = update.weight;
}

void LowRankUpdates::enter() {
  for (Update& update : updates_) {
    if (update.kept.defined()) {
      const at::NoGradGuard no_grad;
      update.weight.copy_(update.kept);
      update.kept.reset();
    }
    update.linear->weight = update.weight + update.b.matmul(update.a) * options_.scale();
  }
}

void LowRankUpdates::settle() {
  const at::NoGradGuard no_grad;
  leave();
  for (Update& update : updates_) {
    if (!update.kept.defined()) update.kept = update.weight.clone();
    update.weight.copy_(update.kept + update.b.matmul(update.a) * options_.scale());
  }
}

NamedTensors LowRankUpdates::state() const {
  NamedTensors tensors;
  for (const Update& update : updates_) {
    tensors.emplace_back(kOfState + update.layer + std::string(kWeight), update.kept);
    tensors.emplace_back(kOfState + name_of_a(update.layer), update.a);
    tensors.emplace_back(kOfState + name_of_b(update.layer), update.b);
  }
  return tensors;
}

void LowRankUpdates::settle_into(NamedTensors& tensors) {
  settle();
  for (auto& tensor : state()) tensors.push_back(std::move(tensor));
}

void LowRankUpdates::load_state(const NamedTensors& state) {
  leave();
  for (Update& update : updates_) update.kept = at::empty_like(update.weight);
  copy_named(state, this->state(), "the updates of low rank");
}

void LowRankUpdates::save(const std::filesystem::path& folder, const std::string& base) const {
  NamedTensors tensors;
  // PEFT compares the ends of names: "proj" would be patch_embed.proj, too.
  std::vector<std::string> layers, whole;
  for (const Update& update : updates_) {
    layers.push_back(update.layer);
    tensors.emplace_back(kOfPeft + name_of_a(update.layer), update.a);
    tensors.emplace_back(kOfPeft + name_of_b(update.layer), update.b);
  }
  for (const auto& [name, tensor] : heads_) {
    tensors.emplace_back(kOfPeft + name, tensor);
    std::string module = name.substr(0, name.find('.'));
    if (std::ranges::find(whole, module) == whole.end()) whole.push_back(std::move(module));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + error.message(),
                folder.string());
  write_tensors(folder / "adapter_model.safetensors", tensors,
                {{"format", "pt"}, {"created_by", "hydrascope"}});
  nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"lora_alpha", options_.scale() * static_cast<double>(options_.rank)},
      {"lora_dropout", 0.0},
      {"modules_to_save", nullptr},
      {"r", options_.rank},
      {"target_modules", layers},
      {"task_type", nullptr}};
  if (!whole.empty()) config["modules_to_save"] = whole;
  const std::string text = config.dump(2) + '\n';
  NewFile file(folder / checkpoint::kAdapterConfig);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace hydrascope::model::training
