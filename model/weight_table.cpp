#include "model/weight_table.h"

#include "kernels/error.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hydrascope::model {
namespace {

/// Whether `for_loading` leaves the tensor as the memory is.
bool is_left_out(std::string_view name) {
  constexpr std::array<std::string_view, 8> kLayers{"attn.qkv.", "attn.proj.", "mlp.fc1.",
                                                    "mlp.fc2.",  "gate1.w.",   "gate1.u.",
                                                    "gate2.w.",  "gate2.u."};
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return false;
  const std::size_t dot = name.find('.', kBlocks.size());
  const std::string_view inside = name.substr(std::min(dot, name.size() - 1) + 1);
  return std::ranges::any_of(kLayers,
                             [&](std::string_view layer) { return inside.starts_with(layer); });
}

}  // namespace

WeightTable::WeightTable(VitConfig config) : config_(std::move(config)) {}

WeightTable::WeightTable(const VisionTransformerImpl& model) : WeightTable(model.config()) {
  for (const auto& [name, tensor] : named_tensors(model))
    add(name, [own = tensor.detach()] { return own; });
}

WeightTable::WeightTable(const VisionTransformer& model) : WeightTable(*model) {}

std::shared_ptr<VisionTransformerImpl> WeightTable::take_modules() const {
  if (modules_ != nullptr) return std::exchange(modules_, nullptr);
  // Modules draw random tensors, which are then filled.
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  auto made = std::make_shared<VisionTransformerImpl>(config_, Initialisation::for_loading);
  generator.set_state(before);
  return made;
}

void WeightTable::add(std::string name, Read read) {
  tensors_.insert_or_assign(std::move(name), std::move(read));
}

at::Tensor WeightTable::get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(ErrorCode::internal, "the model has no tensor of that name", name);
  return found->second();
}

WeightTable random_weights(std::shared_ptr<VisionTransformerImpl> modules) {
  const auto seed = at::randint(std::int64_t{1} << 48, {1}, at::kLong).item<std::int64_t>();
  WeightTable weights(*modules);
  for (const auto& [name, like] : named_tensors(*modules)) {
    if (!is_left_out(name)) continue;
    weights.add(name, [like = like.detach(), own_seed = static_cast<std::uint64_t>(seed) +
                                                        std::hash<std::string>{}(name)] {
      if (like.dim() == 1) return at::zeros_like(like);
      return at::normal(0.0, kInitStd, like.sizes(), at::detail::createCPUGenerator(own_seed),
                        like.options());
    });
  }
  weights.own(std::move(modules));
  return weights;
}

std::string block_prefix(std::int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

void fill(torch::nn::Module& module, const WeightTable& weights, const std::string& prefix,
          const std::function<bool(std::string_view name)>& chosen) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const torch::OrderedDict<std::string, at::Tensor>& tensors) {
    for (const auto& item : tensors) {
      if (!chosen || chosen(item.key()))
        at::Tensor(item.value()).copy_(weights.get(prefix + item.key()));
    }
  };
  copy(module.named_parameters());
  copy(module.named_buffers());
}

}  // namespace hydrascope::model
