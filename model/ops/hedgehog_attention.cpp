// hydrascope::hedgehog_attention: Hedgehog (Zhang et al. 2024, The Hedgehog & the Porcupine, arXiv
// 2402.04347, section 4): linear attention whose feature map is a one-layer network that
// imitates softmax,
//   u = x W + b    y = linear_attention(u_q, u_k, v) with phi by the variant:
//   exp       [exp(u), exp(-u)]                 listings attributed to the paper's appendix
//   softmax2  [softmax(u), softmax(-u)]         LoLCATs, ThunderKittens
//   softmax1  softmax([2u, -2u])                flash-linear-attention
//   expdim    [exp(u - max u), exp(-u + min u)] LoLCATs' exp_dim
//   exp_pos   exp(u)                            equation 3 of the paper
// These are different functions; weights trained for one are not valid for another. No weight is
// the identity. Tensors: q, k (B, H, N, d), v (B, H, N, d_v); W (H, d, w), or (d, w) for all heads;
// b (H, w) or (w). The networks are PyTorch's own operations, in q's dtype, with PyTorch's
// gradients.
#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <string_view>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;

constexpr const char* kOperator = "hedgehog_attention";

void check_network(const char* side, const Tensor& x, const std::optional<Tensor>& weight,
                   const std::optional<Tensor>& bias) {
  c10::SymInt width = x.sym_size(3);
  if (weight.has_value()) {
    const std::int64_t dims = weight->dim();
    TORCH_CHECK((dims == 2 || (dims == 3 && weight->sym_size(0) == x.sym_size(1))) &&
                    weight->sym_size(dims - 2) == x.sym_size(3),
                "hydrascope::", kOperator, ": weight_", side, " has shape ", weight->sym_sizes(),
                ", expected (heads, head_dim, width) or (head_dim, width) with heads ",
                x.sym_size(1), " and head_dim ", x.sym_size(3));
    width = weight->sym_size(dims - 1);
  }
  if (!bias.has_value()) return;
  const std::int64_t dims = bias->dim();
  TORCH_CHECK((dims == 1 || (dims == 2 && bias->sym_size(0) == x.sym_size(1))) &&
                  bias->sym_size(dims - 1) == width,
              "hydrascope::", kOperator, ": bias_", side, " has shape ", bias->sym_sizes(),
              ", expected (heads, width) or (width) with heads ", x.sym_size(1), " and width ",
              width);
}

Tensor hedgehog_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const std::optional<Tensor>& weight_q,
                          const std::optional<Tensor>& bias_q,
                          const std::optional<Tensor>& weight_k,
                          const std::optional<Tensor>& bias_k, std::string_view variant) {
  LinearOptions options;
  options.rule.feature = choice_of<Feature>(kOperator, "variant", variant,
                                            {{"exp", Feature::exp_pair},
                                             {"softmax2", Feature::softmax_pair},
                                             {"softmax1", Feature::softmax_both},
                                             {"expdim", Feature::exp_centred},
                                             {"exp_pos", Feature::exp}});
  check_tokens(kOperator, q, k, v, /*one_width=*/false);
  check_network("q", q, weight_q, bias_q);
  check_network("k", k, weight_k, bias_k);
  const auto network = [](const Tensor& x, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& bias) {
    return head_network({weight.value_or(Tensor()), bias.value_or(Tensor())}, x);
  };
  return attend({network(q, weight_q, bias_q), network(k, weight_k, bias_k), v, std::nullopt},
                options);
}

}  // namespace

// Made of differentiable operators, which bring dispatch, autograd and shape inference.
TORCH_LIBRARY_IMPL(hydrascope, CompositeImplicitAutograd, library) {
  library.impl("hedgehog_attention", hedgehog_attention);
}

}  // namespace hydrascope::model::ops
