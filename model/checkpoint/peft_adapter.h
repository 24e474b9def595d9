// Adapters of PEFT (Hugging Face's library for LoRA, arXiv 2106.09685): a folder with
// adapter_config.json and adapter_model.safetensors or .bin.
#pragma once

#include "model/checkpoint/formats/weight_file.h"

#include <filesystem>

namespace hydrascope::checkpoint {

/// The file of an adapter's tensors.
std::filesystem::path adapter_weights(const std::filesystem::path& folder);

/// The model with the adapter in it: W + s B A in the place of W, in float32, with s = lora_alpha / r,
/// or lora_alpha / sqrt(r) with use_rslora, where r is the setting's or rank_pattern's; of PiSSA and OLoRA
/// without the start of s B A. Learned biases of B are added, other tensors of the adapter
/// (modules_to_save, biases) replace the model's. Names behind "base_model.model." are the file's, or
/// another layout's names of the same tensors. Throws Error(unsupported_format) for another kind of
/// adapter and for every setting that is on and not known to be computed here or to change nothing,
/// and Error(invalid_argument) for tensors that the model lacks or that do not fit it or the rank.
WeightFile with_adapter(const WeightFile& model, const std::filesystem::path& folder);

}  // namespace hydrascope::checkpoint
