#include "model/explain/readout.h"

#include "model/explain/mixer_inputs.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;

/// The sum over images of one logit each: image i's logit of classes[i].
Tensor sum_of_logits(const Tensor& logits, std::span<const std::int64_t> classes) {
  const Tensor index =
      at::tensor(at::ArrayRef<std::int64_t>(classes.data(), classes.size()), at::kLong)
          .to(logits.device());
  return logits.gather(1, index.unsqueeze(1)).sum();
}

}  // namespace

Readout::Readout(const VitConfig& config, const TokenGrid& grid)
    : of_prefix_(config.global_pool == Pooling::token) {
  if (of_prefix_) {
    count = config.distilled ? 2 : 1;
  } else {
    first = config.unpooled_tokens();
    count = grid.num_tokens() - first;
  }
}

Tensor Readout::weights(std::int64_t num_tokens, const at::TensorOptions& options) const {
  Tensor all = at::zeros({num_tokens}, options);
  all.narrow(0, first, count).fill_(1 / static_cast<double>(count));
  return all;
}

Tensor complete_in_chunks(BlockImpl& block, const Tensor& tokens, const Tensor& mixed) {
  const std::int64_t rows = mixed.size(1);
  if (rows <= kChunkTokens) return block.complete(tokens.narrow(1, 0, rows), mixed);
  Tensor output = at::empty_like(mixed);
  for_token_chunks(rows, kChunkTokens, [&](std::int64_t first, std::int64_t count) {
    output.narrow(1, first, count)
        .copy_(block.complete(tokens.narrow(1, first, count), mixed.narrow(1, first, count)));
  });
  return output;
}

Tensor gradient_behind(VisionTransformerImpl& model, const Tensor& tokens, const Tensor& mixed,
                       std::span<const std::int64_t> classes) {
  const at::AutoGradMode with_gradient(true);
  BlockImpl& last = model.block(model.config().depth - 1);
  // An image for each class: their rows share the products with the weights.
  const auto images = static_cast<std::int64_t>(classes.size());
  const Tensor y = mixed.detach().repeat({images, 1, 1}).requires_grad_();
  const Tensor rows = last.complete(tokens.narrow(1, 0, mixed.size(1)).detach(), y);
  const Tensor logits = model.forward_head(model.forward_norm(rows));
  return torch::autograd::grad({sum_of_logits(logits, classes)}, {y})[0];
}

Tensor gradient_of_output(VisionTransformerImpl& model, const Tensor& rows,
                          std::span<const std::int64_t> classes) {
  const at::AutoGradMode with_gradient(true);
  const Tensor leaf = rows.detach().requires_grad_();
  const Tensor logits = model.forward_head(model.forward_norm(leaf));
  std::vector<Tensor> gradients;
  for (const std::int64_t index : classes) {
    gradients.push_back(
        torch::autograd::grad({logits[0][index]}, {leaf}, {}, /*retain_graph=*/true)[0]);
  }
  return at::cat(gradients);
}

}  // namespace hydrascope::model::explain
