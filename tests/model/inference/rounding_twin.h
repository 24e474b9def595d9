// The plan's arithmetic once more: naive products in float64, rounded where the plan stores, so that
// narrow precisions can be compared closely. Softmax and Hydra, a class token, no calibration.
#pragma once

#include "kernels/softmax_attention/byte_panels.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "model/attention/attention.h"
#include "model/attention/hydra_attention.h"
#include "model/attention/softmax_form.h"
#include "model/inference/cpu/precision_choice.h"
#include "model/inference/folded_network.h"
#include "model/inference/model_parts.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace hydrascope::model::inference {

/// A fault that a plan could have; a twin that makes it shows whether a test would see it.
enum class Mistake {
  none,
  quick_gelu,
  no_last_key,
  no_query_bias,
  no_proj_bias,
  no_fc2_bias,
  no_head_bias
};

class RoundingTwin {
 public:
  RoundingTwin(VisionTransformer model, bool int8, Mistake mistake = Mistake::none)
      : model_(std::move(model)), int8_(int8), mistake_(mistake) {}

  at::Tensor logits(const at::Tensor& images) {
    const at::NoGradGuard no_grad;
    const VitConfig& config = model_->config();
    const std::int64_t size = config.patch_size;
    const TokenGrid grid = config.token_grid_of_pixels(images.size(2), images.size(3));
    const WeightTable weights(model_);
    const ModelParts of_model = read_parts(weights);
    const Embeddings embeddings = make_embeddings(of_model, grid.rows, grid.columns);
    const Affine embed = fold_patch_embed(weights);
    const at::Tensor pixels = at::im2col(images, {size, size}, {1, 1}, {0, 0}, {size, size});
    const at::Tensor patch_tokens =
        stored(stored(embeddings.position) +
               stored(pixels.transpose(1, 2)).matmul(narrow(embed.weight).t()) + embed.bias);
    at::Tensor x =
        at::cat({stored(embeddings.prefix).expand({images.size(0), -1, -1}), patch_tokens}, 1);
    for (std::int64_t layer = 0; layer < config.depth; ++layer) {
      AttentionImpl& attention = *of_model.attention[static_cast<std::size_t>(layer)];
      const auto form = attention.mixer().kernel_form();
      const FoldedBlock block = fold_block(weights, layer, attention, form.get());
      const at::Tensor rows = norm(x);
      const Parts parts{stored(linear(rows, block.query, Mistake::no_query_bias)),
                        stored(linear(rows, block.key_value))};
      const at::Tensor mixed = mix(parts, *form, grid);
      x = stored(x + linear(mixed, block.proj(), Mistake::no_proj_bias));
      const at::Tensor hidden = linear(norm(x), block.fc1());
      const at::Tensor active =
          mistake_ == Mistake::quick_gelu ? hidden * (1.702 * hidden).sigmoid() : at::gelu(hidden);
      x = stored(x + linear(stored(active), block.fc2(), Mistake::no_fc2_bias));
    }
    const FoldedHead head = fold_head(weights);
    const at::Tensor pooled = plain_norm(x.select(1, 0)) * head.norm->weight + head.norm->bias;
    at::Tensor logits = pooled.matmul(head.classifier.weight.t());
    if (mistake_ != Mistake::no_head_bias) logits = logits + head.classifier.bias;
    return logits.to(at::kFloat);
  }

 private:
  struct Parts {
    at::Tensor q;          ///< (B, N, D)
    at::Tensor key_value;  ///< (B, N, 2 D)
  };

  static at::Tensor narrow(const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kDouble); }
  /// Rows are bfloat16 if the plan's are.
  static at::Tensor stored(const at::Tensor& x) {
    return row_storage() == kernels::Storage::bfloat16 ? narrow(x)
                                                       : x.to(at::kFloat).to(at::kDouble);
  }
  [[nodiscard]] at::Tensor plain_norm(const at::Tensor& x) const {
    const at::Tensor centred = x - x.mean(-1, true);
    const double eps = model_->config().layer_norm_eps;
    return centred / (centred.square().mean(-1, true) + eps).sqrt();
  }
  [[nodiscard]] at::Tensor norm(const at::Tensor& x) const { return stored(plain_norm(x)); }

  /// Unrounded; `without_bias` if that is the mistake.
  [[nodiscard]] at::Tensor linear(const at::Tensor& x, const Affine& affine,
                                  Mistake without_bias = Mistake::none) const {
    const at::Tensor product = int8_ ? int8_rows(x).matmul(int8_weight(affine.weight).t())
                                     : x.matmul(narrow(affine.weight).t());
    const bool is_lost = mistake_ != Mistake::none && mistake_ == without_bias;
    return is_lost ? product : product + affine.bias;
  }

  /// kernels/quantised_linear/quantised_linear.h has the equations.
  static at::Tensor int8_rows(const at::Tensor& x) {
    const at::Tensor values = x.to(at::kFloat);
    const at::Tensor least = values.amin(-1, true);
    const at::Tensor range = values.amax(-1, true) - least;
    const at::Tensor steps = ((values - least) * (255.0F / range)).round();
    return (range / 255.0F).to(at::kDouble) * steps.to(at::kDouble) + least.to(at::kDouble);
  }
  static at::Tensor int8_weight(const at::Tensor& weight) {
    const at::Tensor values = weight.to(at::kFloat);
    const at::Tensor scale = values.abs().amax(1, true) / 127.0F;
    return scale.to(at::kDouble) * (values / scale).round().to(at::kDouble);
  }

  /// Mixed tokens (B, N, D).
  [[nodiscard]] at::Tensor mix(const Parts& parts, const KernelForm& form,
                               const TokenGrid& grid) const {
    const at::Tensor k = parts.key_value.chunk(2, 2)[0];
    const at::Tensor v = parts.key_value.chunk(2, 2)[1];
    if (const auto* hydra = dynamic_cast<const HydraForm*>(&form))
      return mix_hydra(*hydra, parts.q, k, v, hydra->token_weights(grid));
    if (dynamic_cast<const SoftmaxForm*>(&form) == nullptr)
      throw std::logic_error("a twin of softmax and Hydra");
    const std::int64_t heads = model_->config().num_heads;
    const bool in_bytes =
        int8_ && kernels::softmax_attention::bytes_are_faster(model_->config().embed_dim / heads);
    const auto of_head = [&](const at::Tensor& x) {
      const at::Tensor parted = split_heads(x, heads);
      return in_bytes ? byte_scale(parted) * bytes(parted) : parted;
    };
    at::Tensor scores = of_head(parts.q).matmul(of_head(k).transpose(-1, -2));
    if (mistake_ == Mistake::no_last_key) scores.select(-1, scores.size(-1) - 1).fill_(-1e9);
    const at::Tensor raised = (scores - scores.amax(-1, true)).exp();
    const at::Tensor mixed = in_bytes ? mix_bytes(raised, split_heads(v, heads)) : [&] {
      const at::Tensor rounded = stored(raised);
      return rounded.matmul(split_heads(v, heads)) / rounded.sum(-1, true);
    }();
    return stored(mixed.transpose(1, 2).flatten(2));
  }

  /// kernels/softmax_attention/byte_panels.h has the equations.
  static at::Tensor byte_scale(const at::Tensor& x) { return x.abs().amax(-1, true) / 127.0; }
  static at::Tensor bytes(const at::Tensor& x) { return (x / byte_scale(x)).round(); }
  /// Weights (B, H, N, N) of one block of keys, and values (B, H, N, d).
  static at::Tensor mix_bytes(const at::Tensor& weights, const at::Tensor& v) {
    using kernels::softmax_attention::kByteBlockKeys;
    constexpr double kLargest = kernels::softmax_attention::kLargestByte;
    static constexpr auto kRounders = kernels::softmax_attention::rounders<kByteBlockKeys>();
    if (weights.size(-1) > kByteBlockKeys) throw std::logic_error("a twin of one block of keys");
    const at::Tensor fractions =
        at::tensor(at::ArrayRef<float>(kRounders.data(), kRounders.size())).to(at::kDouble) -
        static_cast<double>(kRounders.front());
    const at::Tensor scaled = weights * byte_scale(v).transpose(-1, -2);
    const at::Tensor most = scaled.amax(-1, true);
    const at::Tensor rounded =
        (kLargest * scaled / most + fractions.narrow(0, 0, weights.size(-1))).floor() / kLargest;
    return most * rounded.matmul(bytes(v)) / weights.sum(-1, true);
  }

  [[nodiscard]] at::Tensor mix_hydra(const HydraForm& hydra, const at::Tensor& q,
                                     const at::Tensor& k, const at::Tensor& v,
                                     const TokenWeights& weights) const {
    const auto length = [&](const at::Tensor& x) {
      return x.norm(2, {-1}, true).clamp_min(hydra.kernel().query.eps);
    };
    at::Tensor of_token = at::full({q.size(1), 1}, weights.patch, at::kDouble);
    of_token[0] = weights.prefix;
    if (mistake_ == Mistake::no_last_key) of_token[-1] = 0;
    at::Tensor given = of_token * (k / length(k)) * v;
    if (hydra.feature_scale().defined()) given = given * hydra.feature_scale().to(at::kDouble);
    const at::Tensor q_hat = stored(q / length(q));
    return stored(q_hat * given.sum(1, true));
  }

  VisionTransformer model_;
  bool int8_;
  Mistake mistake_;
};

}  // namespace hydrascope::model::inference
