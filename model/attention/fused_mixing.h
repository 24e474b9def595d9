// What a mixer tells the inference plan about itself: enough to run it on kernels instead of its
// module. A mixer that says nothing runs as a module inside the plan.
#pragma once

#include "kernels/hydra/hydra.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/attention/token_grid.h"
#include "model/attention/token_scale.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace hydrascope::model {

class KeyPattern;

/// u = scale * (x W + b) of each head, in front of a feature map; undefined tensors: W = 1, b = 0.
struct HeadNetwork {
  at::Tensor weight;  ///< (H, d, w) or (d, w), float
  at::Tensor bias;    ///< (H, w) or (w)
  double scale = 1;
};

/// A feature map as the kernels know it.
struct FusedFeature {
  kernels::linear_attention::Feature feature;
  double unit_eps = 0;  ///< of Feature::unit
  HeadNetwork query;
  HeadNetwork key;
};

struct FusedSoftmax {};

/// Softmax in which a patch sees the prefix tokens and its own window: that of the balanced intervals
/// (balanced_intervals.h) of both axes, none longer than `size`. Prefix tokens see everything.
struct FusedWindow {
  GridExtent size;
};

/// Softmax in which a patch sees the prefix tokens and what its head's pattern says; those see
/// everything (sparse/sparse_softmax.h).
struct FusedSparse {
  struct Heads {
    std::int64_t count;
    const KeyPattern* pattern;  ///< the mixer's
  };
  std::vector<Heads> heads;           ///< all, in their order
  std::optional<FusedWindow> window;  ///< where it is the pattern of all of them
};

struct FusedHydra {
  kernels::hydra::Kernel kernel;
  at::Tensor feature_scale;           ///< (D) or undefined
  std::optional<FusedWindow> window;  ///< whose softmax is added
};

struct FusedLinear {
  FusedFeature map;
  kernels::linear_attention::Normaliser normaliser;
  double eps = 0;
};

/// std::monostate: no kernels.
using FusedMixing =
    std::variant<std::monostate, FusedSoftmax, FusedHydra, FusedLinear, FusedSparse>;

/// That of a mixing which is softmax within windows, or adds it.
inline std::optional<FusedWindow> window_of(const FusedMixing& mixing) {
  if (const auto* sparse = std::get_if<FusedSparse>(&mixing)) return sparse->window;
  const auto* hydra = std::get_if<FusedHydra>(&mixing);
  return hydra != nullptr ? hydra->window : std::nullopt;
}

/// What the scores s of prefix tokens become at some size: factor * s, and for keys of the overview
/// factor * s + overview. (H) or (1), one value for all heads; undefined: they stay as they are.
struct PrefixWeighing {
  at::Tensor factor;
  at::Tensor overview;  ///< undefined without an overview
};

}  // namespace hydrascope::model
