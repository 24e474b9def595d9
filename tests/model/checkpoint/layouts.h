// A small model with random weights, and files of it under the names of others.
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/model/checkpoint/other_names.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint::layouts_test {

namespace fs = std::filesystem;
using model::VisionTransformer;
using model::VitConfig;
using testing::Names;

inline VitConfig small() {
  // A width whose number of heads is assumed.
  VitConfig config = testing::small_vit({.dim = 192, .depth = 2});
  config.arch = "vit";
  return config;
}

inline VisionTransformer random_model(const VitConfig& config) {
  at::manual_seed(11);
  VisionTransformer model(config);
  const at::NoGradGuard no_grad;
  // Ones and zeros, as layer norms and biases begin, would hide a mix-up.
  for (at::Tensor& parameter : model->parameters()) parameter.normal_(0.0, 0.05);
  return model;
}

using Rename = std::function<std::vector<std::string>(const std::string&)>;

/// Writes the tensors under other names; several names share a tensor's rows.
inline void write_as(const VisionTransformer& model, const fs::path& file, const Rename& rename,
                     const Metadata& metadata = {}) {
  std::vector<at::Tensor> kept;
  std::vector<std::pair<std::string, at::Tensor>> table;
  for (const auto& [name, tensor] : model::named_tensors(*model)) {
    const std::vector<std::string> names = rename(name);
    if (names.empty()) continue;
    const auto parts = tensor.detach().chunk(static_cast<std::int64_t>(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i)
      table.emplace_back(names[i], parts[i].contiguous());
  }
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : table) {
    views.push_back({name,
                     Dtype::F32,
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  write_safetensors(file, views, metadata);
}

inline void write_as(const VisionTransformer& model, const fs::path& file, Names names,
                     const std::string& prefix) {
  const bool distilled = model->config().distilled;
  write_as(model, file, [&](const std::string& name) -> std::vector<std::string> {
    const std::string head = testing::head_name(name, names, distilled);
    return head != name ? std::vector{head} : testing::names_in_file(name, names, prefix);
  });
}

inline at::Tensor logits_of(VisionTransformer& model, const at::Tensor& images) {
  const c10::InferenceMode inference;
  return model->forward(images);
}

inline void expect_equal_logits(VisionTransformer& saved, const fs::path& path,
                                const HeadOptions& head = {},
                                std::optional<model::PosInterp> interpolation = {}) {
  const VitConfig& config = saved->config();
  const Checkpoint file = Checkpoint::open(path);
  VitConfig deduced = file.deduce_config(head);
  deduced.arch = config.arch;
  // Names of Hugging Face mean its interpolation of positions at another size.
  VitConfig expected = config;
  expected.pos_interp = interpolation.value_or(file.layout() == "timm" ? model::PosInterp::timm
                                                                       : model::PosInterp::hf);
  EXPECT_EQ(model::to_json(deduced), model::to_json(expected));
  VisionTransformer loaded(deduced);
  const LoadReport report = file.load_into(*loaded, head);
  EXPECT_TRUE(report.initialised.empty());
  EXPECT_TRUE(report.unused.empty());
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, config.img_height, config.img_width});
  EXPECT_TRUE(at::equal(logits_of(saved, images), logits_of(loaded, images)));
}

inline constexpr const char* kHuggingFaceConfig =
    R"({"model_type": "vit", "num_attention_heads": 3, "layer_norm_eps": 1e-06})";

}  // namespace hydrascope::checkpoint::layouts_test
