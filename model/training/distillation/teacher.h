// The model that another one learns from: frozen, and the source of everything that a student is
// compared with.
#pragma once

#include "model/inference/inference_plan.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

/// Number of the last block's tokens that reach the classifier: the class (and distillation) token
/// in a model that pools by token, else all N. The last block computes and compares only these.
std::int64_t num_read_tokens(const VitConfig& config, const TokenGrid& grid);
/// Number of `layer`'s tokens at which a student is compared: in the last layer the tokens that are
/// read.
std::int64_t num_compared_tokens(const VitConfig& config, std::int64_t layer,
                                 const TokenGrid& grid);
/// The class (and distillation) token in a model that pools by token, else none.
std::int64_t num_class_tokens(const VitConfig& config);

/// The mixer's output (B, count, D) of a layer, in front of `proj`, at its first `count` tokens.
at::Tensor mix_tokens(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                      const TokenGrid& grid, std::int64_t count);

/// A layer's queries and keys alone, (B, H, N, d) as the mixer gets them.
struct QueriesAndKeys {
  at::Tensor queries, keys;
};
QueriesAndKeys queries_and_keys(VisionTransformerImpl& model, std::int64_t layer,
                                const at::Tensor& tokens);

/// A block's output; in the last block only at the tokens that are read, (B, num_read_tokens, D).
at::Tensor run_block(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                     const TokenGrid& grid);

/// The classifier after `run_block` of the last layer: logits (B, num_classes), float32 or wider.
at::Tensor classify_tokens(VisionTransformerImpl& model, const at::Tensor& tokens);

/// The logits of `model` by `run_block` and `classify_tokens`: in the last block those tokens alone
/// are computed that are read.
at::Tensor logits_of(VisionTransformerImpl& model, const at::Tensor& images);
/// The same from the input tokens of `layer` on, (B, N, D).
at::Tensor logits_from(VisionTransformerImpl& model, std::int64_t layer, at::Tensor tokens,
                       const TokenGrid& grid);

/// The teacher's view of a batch. None of its tensors is part of a graph.
struct TeacherPass {
  TokenGrid grid;
  /// The input tokens of the requested layers, (B, N, D) each. Behind the last block these are the
  /// tokens that are read, (B, num_read_tokens, D).
  std::vector<at::Tensor> tokens;
  at::Tensor logits;  ///< (B, num_classes), if the last block's output was requested
};

class Teacher {
 public:
  /// Freezes `model` and puts it into evaluation mode.
  explicit Teacher(VisionTransformer model);

  /// From now on the CPU's inference kernels compute blocks and logits, in `dtype`
  /// (`InferencePlan`), on the threads of `at::get_num_threads`.
  void compile(at::ScalarType dtype);

  /// `layers` are ascending; the number of blocks stands for the tokens behind the last block.
  /// Blocks behind the last of `layers` are not computed.
  TeacherPass look(const at::Tensor& images, const std::vector<std::int64_t>& layers);
  /// (B, num_classes), part of no graph.
  at::Tensor logits(const at::Tensor& images);

  [[nodiscard]] const VitConfig& config() const noexcept { return model_->config(); }
  [[nodiscard]] VisionTransformerImpl& model() noexcept { return *model_; }

 private:
  VisionTransformer model_;
  std::unique_ptr<inference::InferencePlan> plan_;
};

}  // namespace hydrascope::model::training
