// The choices of a training that are numbers and words, free of LibTorch: the tables of options fill
// them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model::training {

/// Mixed precision as torch.autocast gives it (autocast.h).
enum class Autocast : std::uint8_t { off, bfloat16 };

/// The type of the products: "float32", "bfloat16".
constexpr std::string_view name(Autocast autocast) {
  return autocast == Autocast::off ? "float32" : "bfloat16";
}

/// The answers in which a student is compared with its teacher: logits, or the pooled vector and the
/// patch tokens after the last norm.
enum class Target : std::uint8_t { logits, features };

constexpr std::string_view name(Target target) {
  return target == Target::logits ? "logits" : "features";
}

/// Kinds of optimizers (optimizer.h).
enum class OptimizerKind { adamw, sgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  std::array<double, 2> betas{0.9, 0.999};  ///< AdamW (Loshchilov and Hutter, arXiv 1711.05101)
  double eps = 1e-8;
  /// SGD with Nesterov's momentum: h = g + weight_decay p; v <- momentum v + h;
  /// p <- p - lr (h + momentum v).
  double momentum = 0.9;
};

/// Which parameters learn, and how fast (parameter_groups.h).
struct ParameterGroupOptions {
  double weight_decay = 0.05;
  /// Layer l of depth + 2 learns at layer_decay^(depth + 1 - l) times the rate (Clark et al. 2020,
  /// arXiv 2003.10555; as BEiT and timm's param_groups_layer_decay): the embeddings are layer 0,
  /// block i is layer i + 1, the norm after the blocks belongs to the last block's layer, the heads
  /// are the last layer.
  double layer_decay = 1;
  /// The factor for parameters that an attention mechanism adds to its layer (feature maps,
  /// scales), besides layer_decay's.
  double mechanism_rate_scale = 1;
  /// Patterns of names: `blocks.10.*`, `head`; a name alone means everything below it. A parameter
  /// is trained if any of `train` matches (all when empty) and none of `freeze`.
  std::vector<std::string> train = {};
  std::vector<std::string> freeze = {};
};

/// Weights that learn by an update of low rank (low_rank.h).
struct LowRankOptions {
  std::int64_t rank = 0;  ///< 0: the weights learn themselves
  double alpha = 0;       ///< the update is alpha / rank times B A; 0: 2 rank
  std::string targets =
      "qkv,proj";  ///< linear layers in the blocks, by the last part of their names
  [[nodiscard]] double scale() const { return alpha == 0 ? 2 : alpha / static_cast<double>(rank); }
};

/// mixup and CutMix (mixup.h).
struct MixupOptions {
  double mixup_alpha = 0;   ///< alpha of Beta(alpha, alpha); 0: no mixup
  double cutmix_alpha = 0;  ///< 0: no CutMix; if both are on, every second batch has it
  double prob = 1;          ///< probability that a batch is mixed
  double label_smoothing = 0.1;
  [[nodiscard]] bool is_on() const noexcept { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

/// Learning from labels, and from a teacher where there is one (classification_task.h).
struct ClassificationOptions {
  MixupOptions mixup;  ///< its label smoothing also holds without mixing
  std::uint64_t seed = 42;
  double drop_path_rate = 0;      ///< as in ForwardOptions
  bool recompute_blocks = false;  ///< as in ForwardOptions
  std::int64_t mlp_chunks = 1;    ///< as in ForwardOptions
  double ponder_weight = 5e-4;    ///< of HaltingCost::ponder, where tokens halt
  // Distillation by a teacher, as in DeiT (arXiv 2012.12877, equations 2 and 3).
  bool distillation_is_hard = true;
  double distillation_weight = 0.5;  ///< alpha
  double temperature = 1;            ///< tau, for the soft form
};

}  // namespace hydrascope::model::training
