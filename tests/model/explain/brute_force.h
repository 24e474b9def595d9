// Explanations by their definitions: the whole model in double with every matrix written
// out and autograd through all of it.
#pragma once

#include "model/explain/explainer.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hydrascope::testing {

/// A model, the tokens of one image in front of each of its blocks, and all that explains them.
class BruteForce {
 public:
  /// Random weights that all matter; `rows` x `columns` patches, which may differ from the training
  /// grid.
  BruteForce(const model::VitConfig& config, std::int64_t rows, std::int64_t columns,
             std::uint64_t seed = 1);
  /// Takes a filled model, in float32, which becomes double.
  BruteForce(model::VisionTransformer model, const at::Tensor& image);

  [[nodiscard]] const model::VitConfig& config() const { return model_->config(); }
  [[nodiscard]] const model::TokenGrid& grid() const { return grid_; }
  [[nodiscard]] const at::Tensor& logits() const { return logits_; }  ///< (classes)

  /// The input of those blocks, (layers, N, D) in float32.
  [[nodiscard]] at::Tensor traced(const std::vector<std::int64_t>& layers) const;
  /// Copies the model's weights.
  [[nodiscard]] model::explain::Explainer::Fill fill() const;
  /// An explainer's answers.
  [[nodiscard]] std::vector<model::explain::Explanation> explain(
      const std::vector<model::explain::Request>& requests) const;
  [[nodiscard]] model::explain::Explanation explain(const model::explain::Request& request) const;

  /// Heat by definition, double: (N), or (H, N) with `per_head`.
  [[nodiscard]] at::Tensor heat(const model::explain::Request& request) const;
  /// g . y of a layer.
  [[nodiscard]] double gradient_dot_output(std::int64_t layer, std::int64_t class_index) const;
  /// The derivative of a logit by alpha_t (N) when what a token gives to every head of the
  /// readout's rows of a layer's mixer is scaled by 1 + alpha_t.
  [[nodiscard]] at::Tensor derivative_by_share(std::int64_t layer, std::int64_t class_index) const;

  struct Layer {
    at::Tensor x;           ///< (1, N, D), what entered the block
    at::Tensor normalised;  ///< norm1's output
    at::Tensor q, k, v;     ///< (1, H, N, d)
    at::Tensor mixed;       ///< (1, N, D)
  };
  [[nodiscard]] const Layer& layer(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index)];
  }
  /// A (H, N, N) without a graph; undefined where there is none.
  [[nodiscard]] at::Tensor map(std::int64_t layer) const;

 private:
  void run(const at::Tensor& image);
  [[nodiscard]] at::Tensor readout() const;  ///< (N)
  struct Gradients {
    std::vector<at::Tensor> mixed;       ///< (1, N, D) per layer
    std::vector<at::Tensor> normalised;  ///< the same
  };
  /// The gradients of one logit in all layers, in one pass.
  [[nodiscard]] const Gradients& gradients(std::int64_t class_index) const;
  [[nodiscard]] model::TokenMixer& mixer(std::int64_t layer) const;
  /// A_ij (g_i . v_j) of each head, each feature with its own map where there is no other (H, N,
  /// N).
  [[nodiscard]] at::Tensor weighted_map(std::int64_t layer, std::int64_t class_index) const;
  /// The factor of a layer.
  [[nodiscard]] at::Tensor factor(const model::explain::Request& request, std::int64_t layer) const;

  mutable model::VisionTransformer model_{nullptr};
  model::TokenGrid grid_;
  std::vector<Layer> layers_;
  at::Tensor logits_;
  mutable std::map<std::int64_t, Gradients> gradients_;  ///< of the classes asked for
};

/// All tokens' heat of an explanation, prefix tokens first: (N) or (H, N).
at::Tensor all_heat(const model::explain::Explanation& explanation);

/// |actual - expected| <= tolerance * max |expected|.
double relative_to_largest(const at::Tensor& actual, const at::Tensor& expected);

/// Three layers of 96 features and 3 heads, an 8 x 8 grid of training, 11 classes.
model::VitConfig small_config(const std::string& attention);
/// The same of one mechanism, with few landmarks where it has any.
model::VitConfig mechanism_config(const std::string& mechanism);

}  // namespace hydrascope::testing
