#include "model/checkpoint/peft_adapter.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/safetensors_header.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/checkpoint/scalar_type.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kOfA = ".lora_A.weight";
constexpr std::string_view kOfB = ".lora_B.weight";

/// The member is there and neither null, false, nor empty.
bool is_set(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return false;
  return found->is_boolean() ? found->get<bool>() : !found->empty();
}

Json read_config(const fs::path& folder) {
  const fs::path file = folder / kAdapterConfig;
  const std::optional<Json> found = load_json_object(file);
  if (!found)
    throw Error(ErrorCode::invalid_argument, "cannot be read", file.string(),
                "an adapter of PEFT is a folder that has it");
  const Json& config = *found;
  if (const auto type = config.find("peft_type"); type == config.end() || *type != "LORA")
    throw Error(ErrorCode::unsupported_format,
                "is no LoRA: peft_type is " + (type == config.end() ? "missing" : type->dump()),
                file.string());
  for (const char* part : {"use_dora", "fan_in_fan_out", "alpha_pattern", "layer_replication",
                           "use_qalora", "target_parameters", "trainable_token_indices"}) {
    if (is_set(config, part))
      throw Error(ErrorCode::unsupported_format, std::string(part) + " is not computed here",
                  file.string(), "PEFT's merge_and_unload gives a checkpoint without an adapter");
  }
  if (const auto alpha = config.find("lora_alpha"); alpha == config.end() || !alpha->is_number())
    throw Error(ErrorCode::decode_failed, "expected lora_alpha, a number", file.string());
  return config;
}

/// The tensor that one of the adapter changes: "a.lora_A.weight" -> "a.weight".
std::string target_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const std::string_view part : {kOfA, kOfB})
    if (name.ends_with(part))
      return std::string(name.substr(0, name.size() - part.size())) + ".weight";
  return std::string(name);
}

/// The model's tensors by their names, and by what they mean: transformers has other names in memory,
/// where an adapter is learned, than in its files.
class Targets {
 public:
  Targets(std::vector<TensorView>& tensors, const std::string& file) {
    std::vector<std::string> names;
    for (TensorView& tensor : tensors) {
      by_name_.emplace(tensor.name, &tensor);
      names.push_back(tensor.name);
    }
    const KeyMapping mapping = map_keys(names, file);
    for (std::size_t i = 0; i < names.size(); ++i)
      by_meaning_.emplace(std::pair{mapping.keys[i].target, mapping.keys[i].part}, &tensors[i]);
  }

  /// Null where there is none.
  [[nodiscard]] TensorView* find(std::string_view name) const {
    const std::string target = target_name(name);
    if (const auto found = by_name_.find(target); found != by_name_.end()) return found->second;
    for (const MappedKey& meaning : meanings_of(target))
      if (const auto found = by_meaning_.find({meaning.target, meaning.part});
          found != by_meaning_.end())
        return found->second;
    return nullptr;
  }

 private:
  std::map<std::string, TensorView*, std::less<>> by_name_;
  std::map<std::pair<std::string, int>, TensorView*>
      by_meaning_;  ///< the modules' tensor, its part
};

/// The result's memory: both files, and the sums.
struct Merged {
  WeightFile model, adapter;
  std::vector<at::Tensor> sums;
  std::vector<TensorView> tensors;
};

}  // namespace

fs::path adapter_weights(const fs::path& folder) {
  fs::path file = folder / "adapter_model.safetensors";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) file.replace_extension(".bin");
  return file;
}

WeightFile with_adapter(const WeightFile& model, const fs::path& folder) {
  const Json config = read_config(folder);
  const fs::path file = adapter_weights(folder);
  auto merged = std::make_shared<Merged>(model, WeightFile::open(file));
  merged->tensors = model.tensors();
  std::map<std::string_view, const TensorView*> adapter;
  for (const TensorView& view : merged->adapter.tensors()) adapter.emplace(view.name, &view);
  const auto alpha = config.at("lora_alpha").get<double>();
  const bool by_root = is_set(config, "use_rslora");
  const auto refuse = [&](std::string_view name, const std::string& why) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " " + why, file.string(),
                "an adapter belongs to the model that it was learned for");
  };
  const Targets targets(merged->tensors, model.file().string());
  const auto target_of = [&](std::string_view name) -> TensorView& {
    TensorView* found = targets.find(name);
    if (found == nullptr) refuse(name, "is for no tensor of " + model.file().string());
    return *found;
  };
  for (const auto& [name, view] : adapter) {
    if (name.ends_with(kOfB)) {
      if (!adapter.contains(std::string(name.substr(0, name.size() - kOfB.size())).append(kOfA)))
        refuse(name, "has no lora_A beside it");
      continue;
    }
    if (!name.ends_with(kOfA)) {
      if (name.find(".lora_") != std::string_view::npos)
        throw Error(ErrorCode::unsupported_format, std::string(name) + " is not computed here",
                    file.string());
      TensorView& whole = target_of(name);
      whole.dtype = view->dtype;
      whole.shape = view->shape;
      whole.data = view->data;
      continue;
    }
    const std::string stem(name.substr(0, name.size() - kOfA.size()));
    const auto other = adapter.find(stem + std::string(kOfB));
    if (other == adapter.end()) refuse(name, "has no lora_B beside it");
    TensorView& weight = target_of(name);
    const std::vector<std::int64_t>&of_a = view->shape, &of_b = other->second->shape;
    if (of_a.size() != 2 || of_b.size() != 2 || of_b[1] != of_a[0] || of_a[0] == 0 ||
        weight.shape != std::vector{of_b[0], of_a[1]})
      refuse(name, shape_text(of_a) + " and lora_B " + shape_text(of_b) + " do not make " +
                       shape_text(weight.shape));
    const auto rank = static_cast<double>(of_a[0]);
    const double scale = alpha / (by_root ? std::sqrt(rank) : rank);
    const at::Tensor& sum =
        merged->sums.emplace_back(copy_of(weight, model.file().string()).to(at::kFloat) +
                                  copy_of(*other->second, file.string())
                                          .to(at::kFloat)
                                          .matmul(copy_of(*view, file.string()).to(at::kFloat)) *
                                      scale);
    weight.dtype = Dtype::F32;
    weight.data = {static_cast<const std::byte*>(sum.const_data_ptr()), sum.nbytes()};
  }
  const std::vector<TensorView>* tensors = &merged->tensors;
  return model.with({std::move(merged), tensors});
}

}  // namespace hydrascope::checkpoint
