// Sound files that are no whole model: adapters and quantised weights.
#pragma once

#include "model/checkpoint/formats/safetensors.h"

#include <filesystem>
#include <span>
#include <string_view>

namespace hydrascope::checkpoint {

/// The file that PEFT writes beside an adapter.
inline constexpr std::string_view kAdapterConfig = "adapter_config.json";

/// Throws Error(unsupported_format): "a LoRA adapter of BASE, ...: merge it first", by the
/// adapter_config.json in `folder`, which must exist. Throws as `load_json_object` does.
[[noreturn]] void refuse_adapter(const std::filesystem::path& folder);

/// Throws Error(unsupported_format) if the tensors of `file` belong to an adapter, or have scales
/// beside them as their factors.
void check_is_model(std::span<const TensorView> tensors, const std::filesystem::path& file);

}  // namespace hydrascope::checkpoint
