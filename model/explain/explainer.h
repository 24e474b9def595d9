// The tokens that a prediction rests on. The model has already run, as a plan or as modules, and
// left the tokens that entered some blocks (EngineOutputs::tokens). From these tokens the
// modules compute, in float32, only the values that a method needs. In the last block of a model
// that pools a class token these are keys and values of all tokens and one row of everything after.
//
// Notation: block l gets x_l, y_l is its mixer's output before proj, A its map (per head), g = d
// logit / d y_l for the requested class, c_t the contribution of token t to y at a query (the c_t
// sum to y). The classifier pools the `readout`: the class token, half of each with a distillation
// token, or every patch alike.
//   hydra         heat_t = sum over queries i of c_t^(i) . g_i = v_t . d logit / d v_t; only the
//                 readout's queries have a g in the last block. Signed; over all tokens it sums to
//                 g . y exactly. For every mechanism, as all are linear in v. Per head: the head's
//                 features alone. (ours: the exact, unnormalised form of what Bolya et al. 2022,
//                 arXiv 2209.07484, show)
//   attention     the readout's row of A, without N x N
//   rollout       R = At_l ... At_0 with At = (mean over heads of A + I) / 2, the readout's row
//                 (Abnar and Zuidema 2020, arXiv 2005.00928); layers without a map whose rows sum
//                 to one are the identity, or the row-stochastic 1 + cos of the same q and k
//   grad-rollout  the same with At = I + relu(mean over heads of A * dA), rows renormalised,
//                 dA_ij = g_i . v_j
//   attn-gradcam  R <- R + (mean over heads of relu(A * dA)) R (Chefer et al. 2021, arXiv
//                 2103.15679: gradients in the place of the relevance of arXiv 2012.09838)
//                 Both use, for a layer without a map, the sum over a head's features of A * dA,
//                 each feature with its own map.
//   gradcam       relu(sum_f alpha_f X_tf), X = norm1's output of the block, alpha the mean over
//                 patches of d logit / dX (Selvaraju et al. 2017, arXiv 1610.02391). norm1 of the
//                 last block serves: behind that block's attention patches have no gradient.
// With a memory a token of an earlier frame has heat too, which no patch of the map shows: `earlier` is its
// sum. The rows are the frame's own tokens' and add up to less than without it. Only `attention` and, at
// the last layer, `hydra` have such maps.
//
// `note` explains rows that are signed (linformer, nystrom, rfa, mla).
// Test: tests/model/explain/.
#pragma once

#include "model/attention/token_grid.h"
#include "model/registry/map_methods.h"
#include "model/registry/memories.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::model::explain {

struct Request {
  Method method = Method::attention;
  std::int64_t layer = 0;        ///< the last layer that a rollout rolls through
  std::int64_t class_index = 0;  ///< ignored by methods without one
  bool per_head = false;         ///< hydra and attention; Error(invalid_argument) else
  MaplessLayers mapless = MaplessLayers::skip;
};

struct Explanation {
  Request request;
  /// float32 on the CPU: (R, C), or (H, R, C) with `per_head`. Not scaled.
  at::Tensor map;
  at::Tensor prefix;     ///< heat of class, distillation and register tokens, (P) or (H, P)
  double own_share = 0;  ///< `class_token_share` over all heads
  double total = 0;      ///< sum over all tokens and heads, earlier frames' too; for hydra g . y
  /// The heat of earlier frames' tokens, float32 on the CPU: a number, or (H) with `per_head`. Undefined
  /// without `ExplainerOptions::memory`.
  at::Tensor earlier;
  bool is_signed = false;
  std::string note;  ///< advice for the map's reader; may be empty
  /// A rollout's treatment of each layer: "softmax map", "hydra skipped", ...
  std::vector<std::string> rules;
};

/// The class token's heat / the sum of |heat| over all tokens: for a map (R, C) and its prefix (P),
/// or over heads, a dimension more. 0 if all heat is 0 or there is no class token.
double class_token_share(const VitConfig& config, const at::Tensor& map, const at::Tensor& prefix);

/// The earlier frames' part of a map: |earlier| / (|own| + |earlier|) of the sums of heat over the frame's own
/// tokens and over earlier frames'. For weights of one sign it is a share of the row. 0 if both sums are 0.
double memory_share(double own, double earlier);

struct ExplainerOptions {
  c10::Device device{c10::kCPU};
  /// The memories of the layers, one each, which images are frames of a video for; empty: each image is a
  /// picture of its own. Requests are then the same for all frames, but for their classes.
  std::vector<MemorySpec> memory = {};
};

/// Called between the steps of an explanation (a layer, a class, some tokens of gradients), each at
/// most as long as a layer of the model, with the layers that are done and all that the explanation goes
/// through, one by one; an exception of it ends the explanation. May be empty.
using BeforeStep = std::function<void(std::int64_t done, std::int64_t all)>;

class Explainer {
 public:
  /// The layers whose incoming tokens `requests` need, ascending.
  static std::vector<std::int64_t> traced_layers(const VitConfig& config,
                                                 std::span<const Request> requests);

  /// Builds the modules from the first layer that `requests` need, without weights for the others;
  /// `fill` fills them, and the tensors of no block, by `checkpoint::Loading`, or leaves them
  /// random. Throws Error(invalid_argument) with `why_not` and the supported names, or with
  /// `why_not_remembering`.
  using Fill =
      std::function<void(VisionTransformerImpl& model, std::span<const std::int64_t> layers)>;
  Explainer(const VitConfig& config, std::span<const Request> requests, const Fill& fill,
            const ExplainerOptions& options = {});
  ~Explainer();
  Explainer(Explainer&&) noexcept;
  Explainer& operator=(Explainer&&) noexcept;

  /// Class vectors (num_classes, D) float32 in the place of the classifier: a logit is the product of a vector
  /// and the pooled tokens.
  void set_class_vectors(const at::Tensor& vectors);

  /// tokens: (traced layers, N, D) of one image, any float type and device. An explanation for each
  /// request, in their order. `grid` is the image's. The classes of `requests` may differ from the
  /// constructor's; methods and layers may not go beyond them.
  std::vector<Explanation> explain(const at::Tensor& tokens, const TokenGrid& grid,
                                   std::span<const Request> requests,
                                   const BeforeStep& before_step = {});
  /// The next image is the first frame of its video; nothing without a memory.
  void forget();
  /// The explained model's logits (num_classes) of a picture, from the last block's tokens. Error(internal) when
  /// no request needs that block.
  at::Tensor logits(const at::Tensor& tokens, const TokenGrid& grid);
  /// The row of the patch at (row, column) in the attention map of a traced layer, the heads' mean,
  /// float32 (R, C) on the CPU. Throws Error(invalid_argument) if the layer has no map or the grid
  /// no such patch.
  at::Tensor patch_row(const at::Tensor& tokens, const TokenGrid& grid, std::int64_t layer,
                       std::int64_t row, std::int64_t column);
  /// The patch tokens (rows * columns, D) after the last norm, float32 on the CPU, row by row.
  at::Tensor patch_tokens(const at::Tensor& tokens, const TokenGrid& grid);

 private:
  /// The pooled tokens (1, n, D), after the last norm.
  at::Tensor pooled_tokens(const at::Tensor& tokens, const TokenGrid& grid);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::explain
