#include "model/checkpoint/formats/refused_weights.h"

#include "kernels/error.h"
#include "model/checkpoint/formats/json_fields.h"
#include "model/checkpoint/formats/strict_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

namespace hydrascope::checkpoint {
namespace {

/// A kind of adapter, known by its `peft_type` and by a word in its tensors' names.
struct AdapterKind {
  std::string_view type;
  std::string_view what;
  std::string_view tensor;
  bool is_mergeable = true;
};
constexpr std::array kAdapterKinds{
    AdapterKind{"LORA", "a LoRA adapter", "lora_"},
    AdapterKind{"LORA", "a LoRA adapter", "lora."},
    AdapterKind{"ADALORA", "an AdaLoRA adapter", "lora_E"},
    AdapterKind{"IA3", "an IA3 adapter", "ia3_l"},
    AdapterKind{"LOHA", "a LoHa adapter", "hada_w"},
    AdapterKind{"LOKR", "a LoKr adapter", "lokr_w"},
    AdapterKind{"VERA", "a VeRA adapter", "vera_lambda"},
    AdapterKind{"BOFT", "a BOFT adapter", "boft_"},
    AdapterKind{"OFT", "an OFT adapter", "oft_"},
    AdapterKind{"FOURIERFT", "a FourierFT adapter", "fourierft_"},
    AdapterKind{"PROMPT_TUNING", "a prompt of PEFT", "prompt_embeddings", false},
    AdapterKind{"PREFIX_TUNING", "a prefix of PEFT", "", false},
    AdapterKind{"P_TUNING", "a prompt of PEFT", "", false},
};

[[noreturn]] void refuse_kind(const std::string& what, const std::string& base, bool is_mergeable,
                              const std::filesystem::path& place) {
  const std::string name =
      what + " of " +
      (base.empty() ? "a model that no " + std::string(kAdapterConfig) + " names" : base) +
      ", not a whole model";
  if (!is_mergeable) {
    throw Error(ErrorCode::unsupported_format, name, place.string(),
                "it cannot be merged into the weights: hydrascope computes the model without it");
  }
  const std::string here =
      what == "a LoRA adapter" ? "`hydrascope convert MODEL OUT --adapter FOLDER`; or " : "";
  throw Error(ErrorCode::unsupported_format, name + ": merge it first", place.string(),
              here +
                  "in Python: peft.PeftModel.from_pretrained(model, FOLDER).merge_and_unload()"
                  ".save_pretrained(MERGED)");
}

/// The adapter that adapter_config.json in `folder` describes; nothing without one.
struct Described {
  std::string what;
  std::string base;
  bool is_mergeable = true;
};
std::optional<Described> describe_adapter(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kAdapterConfig;
  const std::optional<nlohmann::json> json = load_json_object(file);
  if (!json) return std::nullopt;
  const JsonFields fields(*json, file.string());
  Described result;
  const std::string type = fields.text("peft_type").value_or("");
  const auto kind = std::ranges::find(kAdapterKinds, type, &AdapterKind::type);
  if (kind != kAdapterKinds.end()) {
    result.what = kind->what;
    result.is_mergeable = kind->is_mergeable;
  } else {
    result.what = type.empty() ? "an adapter" : "an adapter (" + quote(type) + ")";
  }
  for (const char* key : {"base_model_name_or_path", "model_name"})
    if (const auto base = fields.text(key); base && result.base.empty()) result.base = quote(*base);
  return result;
}

/// The kind of adapter with such a tensor: a part of the tensor's name begins with its word.
const AdapterKind* find_adapter_kind(std::string_view name) {
  const AdapterKind* found = nullptr;
  for (const AdapterKind& kind : kAdapterKinds) {
    const std::size_t at = kind.tensor.empty() ? name.npos : name.find(kind.tensor);
    if (at == name.npos || (at > 0 && name[at - 1] != '.')) continue;
    if (found == nullptr || found->tensor.size() < kind.tensor.size()) found = &kind;
  }
  return found;
}

void refuse_adapter_tensors(std::span<const TensorView> tensors,
                            const std::filesystem::path& file) {
  const AdapterKind* found = nullptr;
  bool has_base = false;
  for (const TensorView& tensor : tensors) {
    const AdapterKind* kind = find_adapter_kind(tensor.name);
    has_base =
        has_base || (kind == nullptr && (tensor.name.find("base_layer.") != tensor.name.npos ||
                                         tensor.name.find("patch_embed") != tensor.name.npos));
    if (kind != nullptr && (found == nullptr || kind->tensor.size() > found->tensor.size()))
      found = kind;
  }
  // Some kinds have the model's own names; then the file's name decides.
  const bool is_named = file.filename().native().starts_with("adapter_model.");
  if (found == nullptr && !is_named) return;
  if (found != nullptr && has_base) {
    throw Error(ErrorCode::unsupported_format,
                "the weights have " + std::string(found->what) + " beside them that is not merged",
                file.string(), "in Python: model.merge_and_unload(), then save it again");
  }
  if (const auto described = describe_adapter(file.parent_path()))
    refuse_kind(described->what, described->base, described->is_mergeable, file);
  if (found != nullptr) refuse_kind(std::string(found->what), "", found->is_mergeable, file);
}

/// Whether `member` is a factor or an offset for its module's weights.
bool is_scale(std::string_view member) {
  constexpr std::array<std::string_view, 12> kNames{
      "SCB",    "absmax", "quant_map",  "qzeros",     "scales",      "zeros",
      "_scale", "scale",  "zero_point", "scaled_fp8", "input_scale", "scale_input"};
  return std::ranges::find(kNames, member) != kNames.end() ||
         member.find("weight_scale") != member.npos || member.find("scale_weight") != member.npos ||
         member.find("weight_zero_point") != member.npos;
}

bool is_narrow(Dtype dtype) {
  switch (dtype) {
    case Dtype::U8:
    case Dtype::I8:
    case Dtype::I32:
    case Dtype::F8_E4M3:
    case Dtype::F8_E5M2:
    case Dtype::F8_E8M0:
    case Dtype::F8_E4M3FNUZ:
    case Dtype::F8_E5M2FNUZ: return true;
    default: return false;
  }
}

void refuse_quantized(std::span<const TensorView> tensors, const std::filesystem::path& file) {
  std::map<std::string_view, std::string_view> scales;  // by their module or tensor
  for (const TensorView& tensor : tensors) {
    const std::string_view name = tensor.name;
    const std::size_t dot = std::min(name.rfind('.'), name.size());
    const std::string_view member = dot == name.size() ? name : name.substr(dot + 1);
    if (is_scale(member)) scales.emplace(dot == name.size() ? "" : name.substr(0, dot), name);
  }
  if (scales.empty()) return;
  for (const TensorView& tensor : tensors) {
    const std::string_view name = tensor.name;
    if (!is_narrow(tensor.dtype) || tensor.shape.size() < 2) continue;
    for (const std::string_view owner :
         {name, name.substr(0, std::min(name.rfind('.'), name.size())), std::string_view()}) {
      const auto scale = scales.find(owner);
      if (scale == scales.end() || scale->second == name) continue;
      throw Error(ErrorCode::unsupported_format,
                  "the weights are quantised: the numbers of " + quote(name) + " (" +
                      std::string(checkpoint::name(tensor.dtype)) + ") mean nothing without " +
                      quote(scale->second) + ", which is not applied",
                  file.string(),
                  "in Python, dequantise the model and save it as float32, float16 or bfloat16");
    }
  }
}

}  // namespace

void refuse_adapter(const std::filesystem::path& folder) {
  const auto described = describe_adapter(folder);
  if (!described) {
    throw Error(ErrorCode::not_found, "there is no such file", (folder / kAdapterConfig).string());
  }
  refuse_kind(described->what, described->base, described->is_mergeable, folder);
}

void check_is_model(std::span<const TensorView> tensors, const std::filesystem::path& file) {
  refuse_adapter_tensors(tensors, file);
  refuse_quantized(tensors, file);
}

}  // namespace hydrascope::checkpoint
