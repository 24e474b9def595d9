#include "model/checkpoint/peft_adapter.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/refused_weights.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/checkpoint/scalar_type.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Shape = std::vector<std::int64_t>;

constexpr std::string_view kOfA = ".lora_A.weight";
constexpr std::string_view kOfB = ".lora_B.weight";
constexpr std::string_view kBias = ".lora_B.bias";
constexpr const char* kMergeInPeft =
    "PEFT's merge_and_unload gives a checkpoint without an adapter";

/// Settings of which every value is computed, shows in the tensors or changes nothing by itself.
constexpr std::array kComputed{"auto_mapping",      "base_model_name_or_path",
                               "exclude_modules",   "inference_mode",
                               "layers_pattern",    "layers_to_transform",
                               "lora_alpha",        "lora_bias",
                               "lora_dropout",      "megatron_core",
                               "merge_weights",     "modules_to_save",
                               "peft_type",         "peft_version",
                               "qalora_group_size", "r",
                               "rank_pattern",      "revision",
                               "runtime_config",    "target_modules",
                               "task_type",         "use_rslora"};

bool is_computed(const std::string& key, const Json& value) {
  if (key == "bias") return value == "none" || value == "all" || value == "lora_only";
  if (key == "init_lora_weights")
    return value == true || value == "gaussian" || value == "orthogonal" || value == "pissa" ||
           value == "olora";
  return std::ranges::find(kComputed, key) != kComputed.end();
}

/// As in Python: neither null, false, zero, nor empty.
bool is_set(const Json& value) {
  if (value.is_structured()) return !value.empty();
  return !value.is_null() && value != false && value != 0 && value != "";
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
  for (const auto& [key, value] : config.items()) {
    if (!is_set(value) || is_computed(key, value)) continue;
    std::string hint = kMergeInPeft;
    if (key == "init_lora_weights")
      hint += ", save_pretrained(..., path_initial_model_for_weight_conversion=...) a plain LoRA";
    throw Error(ErrorCode::unsupported_format,
                quote(key) +
                    (value.is_string() ? ": " + quote(value.get_ref<const std::string&>()) : "") +
                    " is not computed here",
                file.string(), hint);
  }
  const auto expect = [&](const char* key, const char* what, bool is_found) {
    if (!is_found)
      throw Error(ErrorCode::decode_failed, "expected " + std::string(key) + what, file.string());
  };
  for (const char* key : {"lora_alpha", "r"})
    expect(key, ", a number", config.value(key, Json()).is_number());
  const Json by_root = config.value("use_rslora", Json());
  expect("use_rslora", ", true or false", by_root.is_boolean() || by_root.is_null());
  const Json ranks = config.value("rank_pattern", Json());
  const auto is_number = [](const Json& rank) { return rank.is_number(); };
  expect("rank_pattern", ", an object of numbers",
         ranks.is_null() || (ranks.is_object() && std::ranges::all_of(ranks, is_number)));
  return config;
}

/// The ranks that a module may have: those of `rank_pattern` whose name it ends in, else `r`. A pattern that is a
/// regular expression may be for any module.
std::set<double> ranks_of(const Json& config, std::string_view module) {
  std::set<double> ranks{config.at("r").get<double>()};
  const Json patterns = config.value("rank_pattern", Json::object());
  for (const auto& [pattern, rank] : patterns.items()) {
    if (pattern.find_first_of("\\^$*+?()[]{}|") != pattern.npos)
      ranks.insert(rank.get<double>());
    else if (("." + std::string(module)).ends_with("." + pattern))
      return {rank.get<double>()};
  }
  return ranks;
}

/// The tensor that one of the adapter changes: "a.lora_A.weight" -> "a.weight", "a.base_layer.bias"
/// -> "a.bias".
std::string target_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  std::string target(name);
  for (const std::string_view part : {".lora_A.", ".lora_B.", ".base_layer."})
    if (const auto at = target.rfind(part); at != target.npos) target.replace(at, part.size(), ".");
  return target;
}

/// Whether B A has the shape of `weight`. A is a convolution where the layer is one, and B one of 1 x 1.
bool fit(const Shape& of_b, const Shape& of_a, Shape weight) {
  if (weight.size() < 2 || of_a.empty() || of_a[0] == 0) return false;
  Shape fitting(weight.size(), 1);
  fitting[0] = std::exchange(weight[0], of_a[0]);
  fitting[1] = of_a[0];
  return of_a == weight && of_b == fitting;
}

bool is_taken_from_base(const Json& config) {
  const Json start = config.value("init_lora_weights", Json(true));
  return start == "pissa" || start == "olora";
}

/// The value of s B A before it learns, if the base gives it up: PiSSA's part of the greatest singular
/// values (arXiv 2404.02948), OLoRA's s times the part of R's first rows (arXiv 2406.01775). PEFT
/// takes it from the unchanged base whenever it opens an adapter.
at::Tensor start_of(const Json& config, const at::Tensor& weight, std::int64_t rank, double scale) {
  const Json start = config.value("init_lora_weights", Json(true));
  if (start == "pissa") {
    const auto [u, s, v] = at::linalg_svd(weight, /*full_matrices=*/false);
    return (u.slice(1, 0, rank) * s.slice(0, 0, rank)).matmul(v.slice(0, 0, rank));
  }
  if (start == "olora") {
    const auto [q, r] = at::linalg_qr(weight);
    return q.slice(1, 0, rank).matmul(r.slice(0, 0, rank)) * scale;
  }
  return at::zeros_like(weight);
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
  const bool by_root = is_set(config.value("use_rslora", Json(false)));
  const auto refuse = [&](std::string_view name, const std::string& why, const char* hint = "") {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " " + why, file.string(), hint);
  };
  constexpr const char* kOfItsModel = "an adapter belongs to the model that it was learned for";
  const Targets targets(merged->tensors, model.file().string());
  const auto target_of = [&](std::string_view name) -> TensorView& {
    TensorView* found = targets.find(name);
    if (found == nullptr) refuse(name, "is for no tensor of " + model.file().string(), kOfItsModel);
    return *found;
  };
  const auto floats = [](const TensorView& tensor, const fs::path& of) {
    return copy_of(tensor, of.string()).to(at::kFloat);
  };
  const auto put = [&](TensorView& tensor, const at::Tensor& values) {
    merged->sums.push_back(values);
    tensor.dtype = Dtype::F32;
    tensor.data = {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()};
  };
  // By the order of names "a.base_layer.bias" comes before the sums for "a.lora_A.weight".
  for (const auto& [name, view] : adapter) {
    if (name.ends_with(kOfB) || name.ends_with(kBias)) {
      if (!adapter.contains(std::string(name.substr(0, name.rfind(".lora_B"))).append(kOfA)))
        refuse(name, "has no lora_A beside it");
      continue;
    }
    // Beside a module that was learned as a whole PEFT may save the biases of both of its copies.
    const auto has = [&name = name](std::string_view part) { return name.find(part) != name.npos; };
    if (has(".original_module.")) continue;
    if (const auto at = name.find(".modules_to_save."); at != name.npos) {
      const std::string plain =
          std::string(name.substr(0, at)).append(name.substr(name.rfind('.')));
      if (!adapter.contains(plain)) refuse(name, "has no " + plain + " beside it", kMergeInPeft);
      continue;
    }
    if (!name.ends_with(kOfA)) {
      if (has(".lora_"))
        throw Error(ErrorCode::unsupported_format, std::string(name) + " is not computed here",
                    file.string(), kMergeInPeft);
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
    const Shape &of_a = view->shape, &of_b = other->second->shape;
    if (!fit(of_b, of_a, weight.shape))
      refuse(name,
             shape_text(of_a) + " and lora_B " + shape_text(of_b) + " do not make " +
                 shape_text(weight.shape),
             kOfItsModel);
    // PEFT's A of PiSSA and OLoRA has no more rows than the weight has, but `r` makes the scale.
    const auto rows = static_cast<double>(of_a[0]);
    const bool has_start = is_taken_from_base(config);
    if (has_start && weight.shape.size() != 2)
      throw Error(ErrorCode::unsupported_format,
                  std::string(name) + " begins with a part of a convolution, not computed here",
                  file.string(), kMergeInPeft);
    const bool is_full = has_start && of_a[0] == std::min(weight.shape[0], weight.shape[1]);
    std::set<double> ranks = ranks_of(config, std::string_view(stem));
    std::erase_if(ranks, [&](double rank) { return is_full ? rank < rows : rank != rows; });
    if (ranks.size() != 1)
      refuse(name, "has " + std::to_string(of_a[0]) + " rows, which " +
                       (ranks.empty() ? "are not the rank" : "may be of several ranks") +
                       " (r, rank_pattern) of " + std::string(kAdapterConfig));
    const double rank = *ranks.begin();
    const double scale = alpha / (by_root ? std::sqrt(rank) : rank);
    const at::Tensor whole = floats(weight, model.file());
    const at::Tensor product =
        floats(*other->second, file).flatten(1).matmul(floats(*view, file).flatten(1)) * scale;
    const at::Tensor update = product - start_of(config, whole.flatten(1), of_a[0], scale);
    put(weight, whole + update.view(whole.sizes()));
    const auto added = adapter.find(stem + std::string(kBias));
    if (added == adapter.end()) continue;
    TensorView* bias = targets.find(added->first);
    if (bias == nullptr || bias->shape != added->second->shape)
      refuse(added->first, bias == nullptr ? "is for a layer without a bias"
                                           : shape_text(added->second->shape) + " is not " +
                                                 shape_text(bias->shape));
    put(*bias, floats(*bias, file) + floats(*added->second, file) * scale);
  }
  const std::vector<TensorView>* tensors = &merged->tensors;
  return model.with({std::move(merged), tensors});
}

}  // namespace hydrascope::checkpoint
