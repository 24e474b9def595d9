// Our own files: save_checkpoint and convert_checkpoint.
#include "kernels/input_file.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/scalar_type.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

namespace hydrascope::checkpoint {
namespace {

/// The tensors of a file to be written, and the memory of the tensors made for it.
class Table {
 public:
  void add(const std::string& name, const at::Tensor& tensor, Dtype dtype) {
    const at::Tensor& value =
        tensors_.emplace_back(tensor.detach().to(at::kCPU, scalar_type(dtype, name)).contiguous());
    add(name, dtype, value.sizes().vec(),
        {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()});
  }
  /// Adds a tensor as it lies in the file that it came from.
  void add(const NamedTensor& tensor) {
    const TensorView& first = *tensor.parts.front();
    if (tensor.parts.size() == 1) return add(tensor.name, first.dtype, first.shape, first.data);
    std::vector<std::byte>& bytes = joined_.emplace_back();
    for (const TensorView* part : tensor.parts)
      std::ranges::copy(part->data, std::back_inserter(bytes));
    add(tensor.name, first.dtype, *tensor.shape, bytes);
  }
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

 private:
  void add(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> data) {
    views_.push_back({name, dtype, std::move(shape), data});
  }

  // Growing a deque leaves its elements where they are.
  std::deque<at::Tensor> tensors_;
  std::deque<std::vector<std::byte>> joined_;
  std::vector<TensorView> views_;
};

void describe_model(const model::VitConfig& config, Metadata& metadata) {
  metadata["format"] = "pt";
  metadata[std::string(kSchemaKey)] = kSchema;
  metadata[std::string(kConfigKey)] = model::to_json(config);
  metadata["arch"] = config.arch;
  metadata["attention"] = model::to_text(config.attention);
  // For readers that do not parse the configuration: weights of one variant are meaningless in
  // another.
  std::string options;
  for (const auto& [key, value] : model::attention_options(config.attention))
    options += (options.empty() ? "" : ",") + key + "=" + value;
  if (!options.empty()) metadata["attention_options"] = options;
  metadata["img_size"] = stored_size(config);
  metadata["num_classes"] = std::to_string(config.num_classes);
  metadata.try_emplace("created_by", "hydrascope");
}

bool has_one_dtype(const NamedTensor& tensor) {
  return std::ranges::all_of(tensor.parts, [&](const TensorView* part) {
    return part->dtype == tensor.parts.front()->dtype;
  });
}

}  // namespace

std::string stored_size(const model::VitConfig& config) {
  const std::string height = std::to_string(config.img_height);
  return config.img_height == config.img_width ? height
                                               : height + "x" + std::to_string(config.img_width);
}

void save_checkpoint(const std::filesystem::path& file, const model::VisionTransformerImpl& model,
                     Dtype dtype, Metadata metadata, bool until_stopped) {
  describe_model(model.config(), metadata);
  Table table;
  for (const auto& [name, tensor] : model::named_tensors(model)) {
    if (until_stopped) throw_if_stopped();
    table.add(name, tensor, dtype);
  }
  write_safetensors(file, table.views(), metadata, until_stopped);
}

void convert_checkpoint(const std::filesystem::path& file, const Checkpoint& source,
                        const model::VisionTransformerImpl& model, const LoadReport& report,
                        std::optional<Dtype> dtype, Metadata metadata) {
  describe_model(model.config(), metadata);
  const NamedTensor* patch = source.find("patch_embed.proj.weight");
  const bool has_usual = patch != nullptr && !is_float8(patch->parts.front()->dtype);
  const Dtype usual = dtype.value_or(has_usual ? patch->parts.front()->dtype : Dtype::F32);
  Table table;
  for (const auto& [name, tensor] : model::named_tensors(model)) {
    const bool is_new = std::ranges::find(report.initialised, name) != report.initialised.end();
    throw_if_stopped();
    const NamedTensor* origin = is_new ? nullptr : source.find(name);
    if (dtype || origin == nullptr) {
      table.add(name, tensor, usual);
    } else if (has_one_dtype(*origin)) {
      table.add(*origin);
    } else {
      table.add(name, tensor, Dtype::F32);
    }
  }
  write_safetensors(file, table.views(), metadata, /*until_stopped=*/true);
}

}  // namespace hydrascope::checkpoint
