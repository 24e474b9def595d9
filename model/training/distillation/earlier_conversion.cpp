#include "model/training/distillation/earlier_conversion.h"

#include "kernels/error.h"

#include <ATen/ATen.h>

namespace hydrascope::model::training {

std::vector<std::int64_t> take_over_layers(const checkpoint::Checkpoint& earlier,
                                           std::int64_t first, const std::string& parent_sha256,
                                           VisionTransformerImpl& student) {
  const checkpoint::Loading loading = earlier.start_loading(student);
  const VitConfig config = earlier.deduce_config();
  const auto attention = [](const VitConfig& of, std::int64_t layer) {
    return with_all_options({of.attention_of(layer)}, of.training_grid()).front();
  };
  const std::string subject = "--start " + earlier.file().string();
  std::vector<std::int64_t> taken;
  for (std::int64_t layer = first; layer < config.depth; ++layer) {
    if (!(attention(config, layer) == attention(student.config(), layer))) continue;
    loading.copy_block(layer);
    taken.push_back(layer);
  }
  if (taken.empty()) {
    throw Error(ErrorCode::invalid_argument, "holds no layer that would have its attention",
                subject, "its attention is " + to_text(config.attention));
  }
  // A file that names the parent is believed: whoever learns sizes changes the embedding, too. In
  // another one no conversion changed it, but for the rounding of what it wrote.
  const at::Tensor embedding = student.named_parameters()["patch_embed.proj.weight"].detach();
  const at::Tensor before = embedding.clone();
  loading.copy_rest();
  constexpr double kRounding = 1e-2;  // bfloat16 is within 2^-8 of a weight
  const bool names_parent =
      !parent_sha256.empty() && earlier.metadata("parent_sha256") == parent_sha256;
  if (!names_parent &&
      (embedding - before).norm().item<double>() > kRounding * before.norm().item<double>()) {
    throw Error(ErrorCode::invalid_argument, "was converted from another model than --from",
                subject);
  }
  return taken;
}

}  // namespace hydrascope::model::training
