// What the operators of this folder are made of. Each family of attentions has two private operators,
// a forward that also gives what the backward pass reads, and the backward pass, so that dispatch by
// device, torch.compile and shapes without values work on both; one autograd function joins them.
// The modules and the operators of Python call `attend`.
//
// A family is its struct of options: names of the two operators, the options as `choices` (int) and
// `numbers` (float) of their signatures, and a check of the tensors.
#pragma once

#include "kernels/error.h"
#include "model/ops/token_rows.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// Which tensors the GPU's half of the operators is registered for: CUDA's, or the CPU's where the
// kernels run on the tests' block emulator.
#ifdef HYDRASCOPE_EMULATED
#define HYDRASCOPE_DEVICE_KEY CPU
#else
#define HYDRASCOPE_DEVICE_KEY CUDA
#endif

namespace hydrascope::model::ops {

/// q, k (B, H, N, w), v (B, H, N, d), and the scale (H d) of Hydra's global vector or nothing.
struct AttentionInputs {
  const at::Tensor& q;
  const at::Tensor& k;
  const at::Tensor& v;
  const std::optional<at::Tensor>& feature_scale;
};

/// y (B, H, N, d), the sums over tokens and the queries' denominators; the last two are empty where
/// there are none or nobody reads them.
using AttentionForward = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
/// The gradients of q, k, v and, where it is asked for, feature_scale, else an empty tensor.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// What the backward pass needs beside the inputs.
struct AttentionSaved {
  const at::Tensor& y;
  const at::Tensor& sums;
  const at::Tensor& denominator;
  const at::Tensor& grad_y;
  bool with_feature_scale;
};

using Choices = at::IntArrayRef;
using Numbers = at::ArrayRef<double>;
using ForwardSignature = AttentionForward(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v,
                                          const std::optional<at::Tensor>& feature_scale,
                                          Choices choices, Numbers numbers, bool save);
using BackwardSignature = AttentionBackward(const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v,
                                            const std::optional<at::Tensor>& feature_scale,
                                            Choices choices, Numbers numbers, const at::Tensor& y,
                                            const at::Tensor& sums, const at::Tensor& denominator,
                                            const at::Tensor& grad_y, bool with_feature_scale);

/// What `call` gives; an Error of the kernels leaves as the RuntimeError of operator `op` that
/// PyTorch's callers expect.
template <class Call>
auto with_kernel_errors(const char* op, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    TORCH_CHECK(false, "hydrascope::", op, ": ", error.what(), error.hint().empty() ? "" : "; ",
                error.hint());
  }
}

/// `kForward(inputs, save, options)` of a device in the shape of the operator.
template <class Options, auto kForward>
AttentionForward forward_operator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const std::optional<at::Tensor>& feature_scale, Choices choices,
                                  Numbers numbers, bool save) {
  const Options options(choices, numbers);
  const AttentionInputs inputs{q, k, v, feature_scale};
  options.check(inputs);
  return with_kernel_errors(Options::kName, [&] { return kForward(inputs, save, options); });
}

/// `kBackward(inputs, saved, options)` likewise.
template <class Options, auto kBackward>
AttentionBackward backward_operator(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const std::optional<at::Tensor>& feature_scale, Choices choices,
                                    Numbers numbers, const at::Tensor& y, const at::Tensor& sums,
                                    const at::Tensor& denominator, const at::Tensor& grad_y,
                                    bool with_feature_scale) {
  const Options options(choices, numbers);
  const AttentionInputs inputs{q, k, v, feature_scale};
  options.check(inputs);
  return with_kernel_errors(Options::kName, [&] {
    return kBackward(inputs, AttentionSaved{y, sums, denominator, grad_y, with_feature_scale},
                     options);
  });
}

template <class Options>
AttentionForward call_forward(const AttentionInputs& in, bool save, const Options& options) {
  static const auto forward = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow(Options::kForward, "")
                                  .template typed<ForwardSignature>();
  return forward.call(in.q, in.k, in.v, in.feature_scale, options.choices(), options.numbers(),
                      save);
}

template <class Options>
class AttentionFunction : public torch::autograd::Function<AttentionFunction<Options>> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

 public:
  static constexpr bool is_traceable = true;

  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& feature_scale,
                            const Options& options) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, sums, denominator] =
        call_forward({q, k, v, feature_scale}, /*save=*/true, options);
    context->save_for_backward(
        {q, k, v, feature_scale.value_or(at::Tensor()), y, sums, denominator});
    context->saved_data["choices"] = options.choices();
    context->saved_data["numbers"] = options.numbers();
    return y;
  }

  static Variables backward(Context* context, Variables gradients) {
    static const auto call = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow(Options::kBackward, "")
                                 .template typed<BackwardSignature>();
    const Variables saved = context->get_saved_variables();
    const at::Tensor& scale = saved[3];
    const bool with_scale = scale.defined() && context->needs_input_grad(3);
    const auto [dq, dk, dv, dscale] = call.call(
        saved[0], saved[1], saved[2], scale.defined() ? std::optional(scale) : std::nullopt,
        context->saved_data["choices"].toIntVector(),
        context->saved_data["numbers"].toDoubleVector(), saved[4], saved[5], saved[6], gradients[0],
        with_scale);
    return {dq, dk, dv, with_scale ? dscale : at::Tensor(), at::Tensor()};
  }
};

/// y (B, H, N, d), differentiable in the inputs.
template <class Options>
at::Tensor attend(const AttentionInputs& in, const Options& options) {
  if (wants_gradient({in.q, in.k, in.v}) ||
      (in.feature_scale.has_value() && wants_gradient(*in.feature_scale)))
    return AttentionFunction<Options>::apply(in.q, in.k, in.v, in.feature_scale, options);
  const at::AutoDispatchBelowADInplaceOrView below;
  return std::get<0>(call_forward(in, /*save=*/false, options));
}

/// The choice called `name`; else an error that names operator and argument and lists the choices.
template <class Enum>
Enum choice_of(const char* op, const char* argument, std::string_view name,
               std::initializer_list<std::pair<std::string_view, Enum>> choices) {
  std::string known;
  for (const auto& [word, value] : choices) {
    if (word == name) return value;
    known.append(known.empty() ? "" : ", ").append(word);
  }
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is '", name, "', expected one of ",
              known);
}

}  // namespace hydrascope::model::ops
