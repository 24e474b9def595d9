#include "model/tensor_source.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace hydrascope::model {

TensorSource tensors_of(const VisionTransformerImpl& model) {
  auto table = named_tensors(model);
  std::map<std::string, at::Tensor> tensors(std::make_move_iterator(table.begin()),
                                            std::make_move_iterator(table.end()));
  return [tensors = std::move(tensors)](const std::string& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? at::Tensor() : found->second.detach();
  };
}

TensorSource random_block_linears(const VisionTransformerImpl& model) {
  const auto seed = at::randint(std::int64_t{1} << 48, {1}, at::kLong).item<std::int64_t>();
  return [own = tensors_of(model), seed](const std::string& name) {
    if (!is_block_linear(name)) return at::Tensor();
    const at::Tensor like = own(name);
    if (like.dim() == 1) return at::zeros_like(like);
    const at::Generator generator = at::detail::createCPUGenerator(
        static_cast<std::uint64_t>(seed) + std::hash<std::string>{}(name));
    return at::normal(0.0, kInitStd, like.sizes(), generator, like.options());
  };
}

bool is_block_linear(std::string_view name) {
  constexpr std::array<std::string_view, 4> kLayers{".attn.qkv.", ".attn.proj.", ".mlp.fc1.",
                                                    ".mlp.fc2."};
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return false;
  // Behind the number: a mixer may have a network of its own, whose layers are named alike.
  const std::string_view rest = name.substr(std::min(name.find('.', kBlocks.size()), name.size()));
  return std::ranges::any_of(kLayers,
                             [&](std::string_view layer) { return rest.starts_with(layer); });
}

void fill(VisionTransformerImpl& model, const TensorSource& source, bool block_linears) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : named_tensors(model)) {
    if (is_block_linear(name) != block_linears) continue;
    if (const at::Tensor value = source(name); value.defined()) target.copy_(value);
  }
}

}  // namespace hydrascope::model
