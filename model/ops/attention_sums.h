// Attention by sums over tokens whose gradient has a closed form: Hydra (hydra_attention.h) and linear
// attention (linear_attention.h). `attend` joins the two passes of a family by one autograd function;
// the modules call it. Python's operators (library.cpp) are the same passes.
#pragma once

#include "model/ops/token_rows.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>

namespace hydrascope::model::ops {

/// q, k (B, H, N, w), v (B, H, N, d), and the scale (H d) of Hydra's global vector or nothing.
struct AttentionInputs {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const std::optional<at::Tensor>& feature_scale;
};

/// y (B, H, N, d), and the sums over tokens; these need not be there unless they are saved.
using AttentionForward = std::tuple<at::Tensor, at::Tensor>;
/// The gradients of q, k, v and feature_scale; the last is undefined unless it is asked for.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Tensors of the backward pass beside the inputs.
struct AttentionSaved {
  const at::Tensor& sums;
  const at::Tensor& grad_y;
  bool with_feature_scale;
};

/// The two passes of a family with its options. Immutable; autograd's graph shares it.
class AttentionSums : public torch::CustomClassHolder {
 public:
  [[nodiscard]] virtual AttentionForward forward(const AttentionInputs& in, bool save) const = 0;
  [[nodiscard]] virtual AttentionBackward backward(const AttentionInputs& in,
                                                   const AttentionSaved& saved) const = 0;
  /// An error unless the inputs fit together: kernels read their memory as it is described. Sizes may
  /// be symbols, here and below.
  virtual void check(const AttentionInputs& in) const = 0;
  /// The sums without values.
  [[nodiscard]] virtual at::Tensor empty_sums(const AttentionInputs& in) const = 0;
};
using AttentionSumsPtr = c10::intrusive_ptr<AttentionSums>;

/// y (B, H, N, d) in v's dtype, differentiable once in the inputs; a second derivative is an error.
at::Tensor attend(const AttentionInputs& in, const AttentionSumsPtr& sums);

/// The one autograd function. `Passes` gives `forward` and `backward`, and itself as a value that a
/// graph saves.
template <class Passes>
class SumsFunction : public torch::autograd::Function<SumsFunction<Passes>> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

 public:
  static constexpr bool is_traceable = true;

  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& feature_scale,
                            const Passes& passes) {
    const auto [y, sums] = passes.forward({q, k, v, feature_scale}, /*save=*/true);
    context->save_for_backward({q, k, v, feature_scale.value_or(at::Tensor()), sums});
    context->saved_data["passes"] = passes.saved();
    return y;
  }

  static Variables backward(Context* context, Variables gradients) {
    const Variables saved = context->get_saved_variables();
    const std::optional<at::Tensor> scale =
        saved[3].defined() ? std::optional(saved[3]) : std::nullopt;
    const bool with_scale = scale.has_value() && context->needs_input_grad(3);
    const auto [dq, dk, dv, dscale] =
        Passes::from(context->saved_data["passes"])
            .backward({saved[0], saved[1], saved[2], scale}, {saved[4], gradients[0], with_scale});
    return {dq, dk, dv, with_scale ? dscale : at::Tensor(), at::Tensor()};
  }
};

template <class Passes>
at::Tensor attend_by(const AttentionInputs& in, const Passes& passes) {
  if (wants_gradient({in.q, in.k, in.v}) ||
      (in.feature_scale.has_value() && wants_gradient(*in.feature_scale)))
    return SumsFunction<Passes>::apply(in.q, in.k, in.v, in.feature_scale, passes);
  return std::get<0>(passes.forward(in, /*save=*/false));
}

class HydraSums;
class LinearSums;

/// The forward passes of a device's kernels, which compute by the formula what they do not serve; null
/// where the program has none.
struct DeviceKernels {
  AttentionForward (*hydra)(const AttentionInputs& in, const HydraSums& sums) = nullptr;
  AttentionForward (*linear)(const AttentionInputs& in, bool save,
                             const LinearSums& sums) = nullptr;
};

/// Those of x's device. The files of the devices fill them in when the program starts.
DeviceKernels& kernels_of(at::DeviceType device);

}  // namespace hydrascope::model::ops
