// The model that another one learns from: frozen, and asked for everything that a student is
// compared with.
#pragma once

#include "model/inference/inference_plan.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

/// How many tokens of the last block reach the classifier: the class (and distillation) token where
/// it pools by token, else all N. Only those of the last block need to be computed and compared.
std::int64_t num_read_tokens(const VitConfig& config, const TokenGrid& grid);
/// How many of `layer`'s tokens a student is compared at: those that are read of the last one.
std::int64_t num_compared_tokens(const VitConfig& config, std::int64_t layer,
                                 const TokenGrid& grid);
/// The class (and distillation) token where the model pools by token, else none.
std::int64_t num_class_tokens(const VitConfig& config);

/// A layer's attention up to the mixer's output: q, k, v and `output` of the trace.
AttentionTrace trace_attention(VisionTransformerImpl& model, std::int64_t layer,
                               const at::Tensor& tokens, const TokenGrid& grid);

/// A block's output; the last one's at the tokens that are read only, (B, num_read_tokens, D).
at::Tensor run_block(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                     const TokenGrid& grid);

/// The classifier after `run_block` of the last layer: logits (B, num_classes), float32 or wider.
at::Tensor classify_tokens(VisionTransformerImpl& model, const at::Tensor& tokens);

/// What the teacher makes of a batch. Nothing of it is part of a graph.
struct TeacherPass {
  TokenGrid grid;
  /// Entry i, (B, N, D), enters block i; the last one, after the last block, has the read tokens
  /// only. Undefined before the first block that `Teacher::compile` asks for.
  std::vector<at::Tensor> tokens;
  at::Tensor logits;  ///< (B, num_classes)
};

/// What the teacher's attention does in some layers.
struct TeacherAttention {
  TokenGrid grid;
  struct Layer {
    std::int64_t index = 0;
    at::Tensor tokens;  ///< (B, N, D), what enters the block
    AttentionTrace trace;
  };
  std::vector<Layer> layers;
};

class Teacher {
 public:
  /// Freezes `model` and puts it into evaluation mode.
  explicit Teacher(VisionTransformer model);

  /// From now on blocks are computed with the inference kernels of the CPU, in `dtype`
  /// (`InferencePlan`), on the threads of `at::get_num_threads`; `look` tells what enters those
  /// from `first_layer` on.
  void compile(at::ScalarType dtype, std::int64_t first_layer);

  TeacherPass look(const at::Tensor& images);
  /// The attention of `layers`, ascending; blocks after the last of them are not computed.
  TeacherAttention look_at_attention(const at::Tensor& images,
                                     const std::vector<std::int64_t>& layers);
  at::Tensor logits(const at::Tensor& images) { return look(images).logits; }

  [[nodiscard]] const VitConfig& config() const noexcept { return model_->config(); }
  [[nodiscard]] VisionTransformerImpl& model() noexcept { return *model_; }

 private:
  /// `TeacherPass::tokens` but the last, from the plan.
  std::vector<at::Tensor> look_at_blocks(const at::Tensor& images);

  VisionTransformer model_;
  std::unique_ptr<inference::InferencePlan> plan_;
  std::int64_t first_layer_ = 0;  ///< whose tokens the plan tells
};

}  // namespace hydrascope::model::training
