// Checkpoints that others' programs wrote, kept as the names and shapes of their tensors: the numbers are made again.
#pragma once

#include "model/checkpoint/formats/safetensors.h"
#include "tests/model/deterministic_weights.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::testing {

using Shape = std::vector<std::int64_t>;

/// The goldens of tests/data/`folder`, sorted.
inline std::vector<std::string> golden_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests/data" / folder))
    names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

inline std::vector<float> golden_values(const std::string& name, const Shape& shape,
                                        std::uint64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  // Scalars belong to parts that are left out.
  if (!shape.empty()) fill_deterministic(name, shape, values, seed);
  return values;
}

struct Golden {
  checkpoint::Metadata metadata;
  at::Tensor answer, input;
  std::uint64_t seed = 0;
};

/// tests/data/`file`.safetensors; its tensor `answer` is what the program gave for `input`.
inline Golden read_golden(const std::string& file, std::string_view answer) {
  const auto contents = checkpoint::SafetensorsFile::open(
      std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "tests/data" / (file + ".safetensors"));
  const checkpoint::TensorView* view = contents.find(answer);
  const auto shape = nlohmann::json::parse(contents.metadata().at("input_shape")).get<Shape>();
  const std::uint64_t seed = std::stoull(contents.metadata().at("seed"));
  std::vector<float> values = golden_values("input", shape, seed);
  return {contents.metadata(),
          at::from_blob(const_cast<std::byte*>(view->data.data()), view->shape, at::kFloat).clone(),
          at::from_blob(values.data(), shape, at::kFloat).clone(), seed};
}

/// model.safetensors by the program's names, and the `config` beside it. DINOv3's periods are base^(n / count).
inline std::filesystem::path write_golden(const TemporaryFolder& folder,
                                          const checkpoint::Metadata& golden,
                                          const std::string& config, double base = 100) {
  std::deque<std::vector<float>> memory;
  std::vector<checkpoint::TensorView> views;
  const auto tensors = nlohmann::json::parse(golden.at("tensors"));
  for (const auto& [name, shape] : tensors.items()) {
    const auto sizes = shape.get<Shape>();
    memory.push_back(golden_values(name, sizes, std::stoull(golden.at("seed"))));
    if (name == "rope_embed.periods")
      for (std::size_t n = 0; n < memory.back().size(); ++n)
        memory.back()[n] = static_cast<float>(
            std::pow(base, static_cast<double>(n) / static_cast<double>(memory.back().size())));
    views.push_back({name, checkpoint::Dtype::F32, sizes, std::as_bytes(std::span(memory.back()))});
  }
  folder.write("config.json", config);
  const std::filesystem::path file = folder.path() / "model.safetensors";
  checkpoint::write_safetensors(file, views, {{"format", "pt"}});
  return file;
}

}  // namespace hydrascope::testing
