// A model's weights by name. Engines and modules get their weights from such a table, whether a
// checkpoint or other modules gave it.
#pragma once

#include "model/config/config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace torch::nn {
class Module;
}

namespace hydrascope::model {

class VisionTransformer;
class VisionTransformerImpl;

/// All tensors of a model, by the names that the modules have (timm's). Several threads may ask at the
/// same time.
class WeightTable {
 public:
  using Read = std::function<at::Tensor()>;

  /// A table of a model of that configuration, without tensors so far.
  explicit WeightTable(VitConfig config);
  /// The tensors of the model itself.
  explicit WeightTable(const VisionTransformerImpl& model);
  WeightTable(const VisionTransformer& model);
  // A copy would share the modules that `take_modules` gives to one owner.
  WeightTable(WeightTable&&) noexcept = default;
  WeightTable& operator=(WeightTable&&) noexcept = default;
  WeightTable(const WeightTable&) = delete;
  WeightTable& operator=(const WeightTable&) = delete;
  ~WeightTable() = default;

  /// Hands over modules that were made `for_loading`, for `take_modules`.
  void own(std::shared_ptr<VisionTransformerImpl> modules) { modules_ = std::move(modules); }
  /// Modules of the configuration for one owner, who fills and changes them: the modules that the
  /// table owns, the first time; else new ones, for which LibTorch's default generator is left as it
  /// was. One thread at a time.
  [[nodiscard]] std::shared_ptr<VisionTransformerImpl> take_modules() const;

  /// `read` gives the tensor each time somebody asks for it; the last `read` of a name counts.
  void add(std::string name, Read read);

  [[nodiscard]] const VitConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::map<std::string, Read>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Reads a tensor as it is stored, of any floating type: a file's on the CPU, perhaps a view into the
  /// file, a module's on its device.
  /// Error(internal) for a name that the model does not have.
  [[nodiscard]] at::Tensor get(const std::string& name) const;

 private:
  VitConfig config_;
  std::map<std::string, Read> tensors_;
  mutable std::shared_ptr<VisionTransformerImpl> modules_;
};

/// The tensors of `modules`, which were made `for_loading` and become the table's own. The layers that
/// `for_loading` left out are random as by `Initialisation::random`: drawn whenever somebody asks, the
/// same each time, from a seed of the default generator.
WeightTable random_weights(std::shared_ptr<VisionTransformerImpl> modules);

/// "blocks.3.": the beginning of names of that block's tensors.
std::string block_prefix(std::int64_t layer);
inline bool is_outside_blocks(std::string_view name) { return !name.starts_with("blocks."); }

/// Copies the tensors of `module` from the table. Their names in the table begin with `prefix`.
/// Tensors that `chosen` refuses (it gets the name below `prefix`) stay as they are.
void fill(torch::nn::Module& module, const WeightTable& weights, const std::string& prefix = "",
          const std::function<bool(std::string_view name)>& chosen = {});

}  // namespace hydrascope::model
