// Loading: copies the tensors that fit, after listing all tensors that do not.
#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/formats/mapped_file.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/scalar_type.h"
#include "model/registry/positions.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <unistd.h>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

using model::VitConfig;

/// A tensor around the file's memory, whose pages are given back with its last use; eight bits
/// become float32, which holds the same numbers.
at::Tensor tensor_of(const TensorView& view) {
  const at::TensorOptions options(scalar_type(view.dtype, view.name));
  // The format allows any alignment; a tensor over misaligned memory is undefined behaviour.
  if (reinterpret_cast<std::uintptr_t>(view.data.data()) % size_of(view.dtype) != 0)
    return copy_of(view);  // of wide types only: bytes are aligned anywhere
  // from_blob wants a mutable pointer; the mapping is read-only, and the tensor is only read.
  const at::Tensor tensor = at::from_blob(
      const_cast<std::byte*>(view.data.data()), view.shape,
      [bytes = view.data](void*) { release_pages(bytes); }, options);
  if (is_float8(view.dtype)) return tensor.to(at::kFloat);
  // LibTorch turns half precision into float32 by FBGEMM alone, which cannot tell the processor
  // without /proc.
  static const bool without_proc = ::access("/proc/cpuinfo", R_OK) != 0;
  return without_proc && view.dtype == Dtype::F16 ? tensor.to(at::kDouble).to(at::kFloat) : tensor;
}

/// The rows of all parts, one after the other.
at::Tensor tensor_of(const NamedTensor& tensor) {
  if (tensor.parts.size() == 1) return tensor_of(*tensor.parts.front());
  std::vector<at::Tensor> parts;
  for (const TensorView* part : tensor.parts) parts.push_back(tensor_of(*part));
  return at::cat(parts);
}

/// The file's name of `tensor`, and its shape: "q + k + v", "(2, 2) + (2, 2) + (2, 2)".
std::pair<std::string, std::string> describe(const NamedTensor& tensor) {
  std::string names;
  std::string shapes;
  for (const TensorView* part : tensor.parts) {
    names += (names.empty() ? "" : " + ") + part->name;
    shapes += (shapes.empty() ? "" : " + ") + shape_text(part->shape);
  }
  return {names, shapes};
}

/// The layer of `blocks.LAYER.`; -1 for anything else.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  std::int64_t layer = -1;
  if (name.starts_with(kBlocks)) {
    name.remove_prefix(kBlocks.size());
    std::from_chars(name.data(), name.data() + name.size(), layer);
  }
  return layer;
}

/// Whether `name` belongs to attention, positions or exits that differ between the model and the file.
bool differs_there(const VitConfig& stored, const VitConfig& wanted, std::string_view name) {
  if (is_of_exits(name)) return stored.branch_exits() != wanted.branch_exits();
  if (is_layer_table(name)) return stored.pos_embed != wanted.pos_embed;
  const std::int64_t layer = layer_of(name);
  if (!is_mechanism_tensor(name) || layer < 0 || layer >= wanted.depth) return false;
  const auto attention = [&](const VitConfig& config) {
    return model::with_all_options({config.attention_of(layer)}, wanted.training_grid()).front();
  };
  if (!(attention(stored) == attention(wanted))) return true;
  const std::string_view inside = name.substr(name.find(".attn.") + 6);
  const auto member = [](std::string_view text) { return text.substr(0, text.find('.')); };
  const bool is_of_positions = std::ranges::any_of(model::position_rules(), [&](const auto* rule) {
    return std::ranges::any_of(rule->parameters, [&](const auto& parameter) {
      return member(inside) == member(parameter.name);
    });
  });
  const auto rule = [&](const VitConfig& config) {
    return model::with_all_options(std::vector{config.rel_pos_of(layer)}).front();
  };
  return is_of_positions && !(rule(stored) == rule(wanted));
}

struct Differences {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> mismatched;
  bool of_head = false;

  [[nodiscard]] bool none() const {
    return missing.empty() && unexpected.empty() && mismatched.empty();
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [label, names] :
         {std::pair{"missing", &missing},
          {"unexpected, which this program does not compute", &unexpected},
          {"mismatched", &mismatched}}) {
      if (!names->empty())
        text += "; " + std::to_string(names->size()) + " " + label + ": " + some_of(*names);
    }
    return text;
  }
};

}  // namespace

LoadReport Checkpoint::load_into(model::VisionTransformerImpl& model,
                                 const HeadOptions& head) const {
  const Loading loading = start_loading(model, head);
  model::fill(model, loading.weights());
  return loading.report();
}

Loading Checkpoint::start_loading(model::VisionTransformerImpl& model,
                                  const HeadOptions& head) const {
  const auto table = model::named_tensors(model);
  const auto fits = [&](const NamedTensor* tensor, const at::Tensor& target) {
    return tensor != nullptr && tensor->shape == target.sizes().vec();
  };
  bool new_head = head.reset;
  for (const auto& [name, target] : table) {
    if (head.num_classes && is_of_head(name) && !fits(find(name), target)) new_head = true;
  }

  const model::VitConfig stored = stored_layers(model.config().depth);
  const auto is_replaced = [&](std::string_view name) {
    return differs_there(stored, model.config(), name);
  };
  LoadReport report;
  model::WeightTable weights(model);
  std::vector<const NamedTensor*> loaded;
  Differences differences;
  std::set<std::string_view> used;
  for (const auto& [name, target] : table) {
    const NamedTensor* tensor = find(name);
    if ((new_head && is_of_head(name)) || (tensor == nullptr && is_replaced(name))) {
      report.initialised.push_back(name);
      continue;
    }
    if (fits(tensor, target)) {
      used.insert(tensor->name);
      weights.add(name, [tensor] { return tensor_of(*tensor); });
      loaded.push_back(tensor);
      continue;
    }
    differences.of_head = differences.of_head || is_of_head(name);
    if (tensor != nullptr) used.insert(tensor->name);
    if (tensor != nullptr && tensor->is_complete()) {
      const auto [names, shapes] = describe(*tensor);
      differences.mismatched.push_back(names + " expected " + shape_text(target.sizes().vec()) +
                                       " found " + shapes);
      continue;
    }
    const std::vector<std::string> names = mapping_.file_names(name);
    if (tensor != nullptr && names.size() != tensor->parts.size()) {
      differences.missing.push_back("a part of " + names.front());
      continue;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (tensor == nullptr || tensor->parts[i] == nullptr) differences.missing.push_back(names[i]);
    }
  }
  const bool turns =
      std::ranges::any_of(stored.rel_pos, [](const auto& layer) { return layer.rule == "rope"; });
  for (const NamedTensor& tensor : named_) {
    if (used.contains(tensor.name) || (turns && is_of_rotation(tensor.name))) continue;
    const bool is_replaced_table =
        tensor.name == "pos_embed" && !model::has_table(model.config().pos_embed);
    const bool may_stay =
        is_replaced(tensor.name) || is_replaced_table || (new_head && is_of_head(tensor.name));
    for (const TensorView* part : tensor.parts) {
      if (part != nullptr)
        (may_stay ? report.unused : differences.unexpected).push_back(part->name);
    }
  }
  if (!differences.none()) {
    throw Error(ErrorCode::failed,
                "the file does not fit " + model.config().arch + differences.text(),
                file().string(), differences.of_head ? new_head_hint(head) : "");
  }
  // Nothing is copied before everything is known to be copied.
  for (const NamedTensor* tensor : loaded) {
    for (const TensorView* part : tensor->parts)
      static_cast<void>(scalar_type(part->dtype, part->name, file().string()));
  }
  return {std::move(report), std::move(weights)};
}

}  // namespace hydrascope::checkpoint
