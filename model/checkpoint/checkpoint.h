// A checkpoint file seen as a vision transformer: which configuration its tensors show, and loading
// them into modules with every difference listed at once.
#pragma once

#include "model/checkpoint/key_map.h"
#include "model/checkpoint/safetensors.h"
#include "model/config.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::checkpoint {

/// Names of metadata entries in our own files.
inline constexpr std::string_view kSchemaKey = "hydrascope.schema";
inline constexpr std::string_view kConfigKey = "hydrascope.config";

/// One tensor of the file under the name that the modules use.
struct NamedView {
  std::string name;
  const TensorView* view = nullptr;
};

class Checkpoint {
 public:
  /// FILE.safetensors, *.safetensors.index.json, or a folder that holds
  /// model.safetensors(.index.json).
  static Checkpoint open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return contents_.metadata(); }
  /// "" when the entry is absent.
  [[nodiscard]] std::string metadata(std::string_view key) const;
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept {
    return contents_.tensors();
  }
  /// The layout of names that was detected ("timm").
  [[nodiscard]] std::string_view layout() const noexcept { return layout_; }
  /// Renamed tensors; what inference does not use is left out.
  [[nodiscard]] const std::vector<NamedView>& named() const noexcept { return named_; }

  /// The configuration: what metadata says (`hydrascope.config`, or `arch` and `attention`),
  /// corrected by what the shapes prove. Throws Error(failed) when the shapes fit no vision
  /// transformer.
  [[nodiscard]] model::VitConfig deduce_config() const;

  /// Copies every tensor into `model` (float dtypes are converted). Throws one Error(failed) that
  /// lists missing, unexpected and mismatched tensors together.
  void load_into(model::VisionTransformerImpl& model) const;

 private:
  [[nodiscard]] const TensorView* find(std::string_view name) const;

  std::filesystem::path file_;
  SafetensorsFile contents_;
  std::string_view layout_;
  std::vector<NamedView> named_;
};

/// Writes the model's tensors as `dtype` (F32, F16 or BF16) with `metadata` and what describes the
/// model (format, schema, config, arch, attention, img_size, num_classes, created_by).
void save_checkpoint(const std::filesystem::path& file, const model::VisionTransformerImpl& model,
                     Dtype dtype, Metadata metadata);

}  // namespace hydrascope::checkpoint
