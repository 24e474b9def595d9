// The common parts of this folder's operators. Each family of attentions has two private operators:
// a forward pass that also returns the tensors of its backward pass, and the backward pass.
// Dispatch by device, torch.compile and shapes without values so work on both; one autograd
// function joins them. The modules and the operators of Python call `attend`.
//
// A family is its struct of options: names of the two operators, the options as `Arguments` (a tuple)
// and as the text of the same arguments in a signature, and a check of the tensors.
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

// The tensors that the GPU's half of the operators is registered for: CUDA's, or the CPU's if the
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

/// y (B, H, N, d), and the sums over tokens; these are empty if nobody reads them.
using AttentionForward = std::tuple<at::Tensor, at::Tensor>;
/// The gradients of q, k, v and feature_scale; the last is an empty tensor unless it is asked for.
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Tensors of the backward pass beside the inputs.
struct AttentionSaved {
  const at::Tensor& sums;
  const at::Tensor& grad_y;
  bool with_feature_scale;
};

/// Returns the result of `call`; an Error of the kernels leaves as the RuntimeError of operator
/// `op` that PyTorch's callers expect.
template <class Call>
auto with_kernel_errors(const char* op, Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    TORCH_CHECK(false, "hydrascope::", op, ": ", error.what(), error.hint().empty() ? "" : "; ",
                error.hint());
  }
}

/// The two private operators of a family. They take the inputs and, by name, the `Arguments` of its
/// options.
template <class Options, class Arguments = typename Options::Arguments>
struct Operators;
template <class Options, class... Arguments>
struct Operators<Options, std::tuple<Arguments...>> {
  using Scale = std::optional<at::Tensor>;

  /// `kForward(inputs, save, options)` of a device in the shape of the operator.
  template <auto kForward>
  static AttentionForward forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const Scale& feature_scale, Arguments... arguments, bool save) {
    return checked({q, k, v, feature_scale}, {arguments...},
                   [&](const AttentionInputs& in, const Options& options) {
                     return kForward(in, save, options);
                   });
  }
  /// `kBackward(inputs, saved, options)` likewise.
  template <auto kBackward>
  static AttentionBackward backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const Scale& feature_scale, Arguments... arguments,
                                    const at::Tensor& sums, const at::Tensor& grad_y,
                                    bool with_feature_scale) {
    return checked({q, k, v, feature_scale}, {arguments...},
                   [&](const AttentionInputs& in, const Options& options) {
                     return kBackward(in, {sums, grad_y, with_feature_scale}, options);
                   });
  }

  static AttentionForward call_forward(const AttentionInputs& in, bool save,
                                       const Options& options) {
    using Signature = AttentionForward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                       const Scale&, Arguments..., bool);
    static const auto forward = find<Signature>(Options::kForward);
    return std::apply(
        [&](auto... arguments) {
          return forward.call(in.q, in.k, in.v, in.feature_scale, arguments..., save);
        },
        options.arguments());
  }
  static AttentionBackward call_backward(const AttentionInputs& in, const AttentionSaved& saved,
                                         const Options& options) {
    using Signature =
        AttentionBackward(const at::Tensor&, const at::Tensor&, const at::Tensor&, const Scale&,
                          Arguments..., const at::Tensor&, const at::Tensor&, bool);
    static const auto backward = find<Signature>(Options::kBackward);
    return std::apply(
        [&](auto... arguments) {
          return backward.call(in.q, in.k, in.v, in.feature_scale, arguments..., saved.sums,
                               saved.grad_y, saved.with_feature_scale);
        },
        options.arguments());
  }

 private:
  template <class Signature>
  static auto find(const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
  }
  template <class Call>
  static auto checked(const AttentionInputs& in, const std::tuple<Arguments...>& arguments,
                      const Call& call) {
    const Options options = Options::from(arguments);
    options.check(in);
    return with_kernel_errors(Options::kName, [&] { return call(in, options); });
  }
};

/// Sums over tokens by a family's operators.
template <class Options>
struct OperatorSums {
  using Arguments = typename Options::Arguments;

  Options options;

  [[nodiscard]] AttentionForward forward(const AttentionInputs& in, bool save) const {
    const at::AutoDispatchBelowADInplaceOrView below;
    return Operators<Options>::call_forward(in, save, options);
  }
  [[nodiscard]] AttentionBackward backward(const AttentionInputs& in,
                                           const AttentionSaved& saved) const {
    return Operators<Options>::call_backward(in, saved, options);
  }
  [[nodiscard]] c10::IValue saved() const { return options.arguments(); }
  static OperatorSums from(const c10::IValue& saved) {
    // Read from a vector: GCC 12 takes the small array in LibTorch's tuples for the whole tuple.
    const std::vector<c10::IValue> values = saved.toTupleRef().elements().vec();
    const auto read = [&]<std::size_t... index>(std::index_sequence<index...>) {
      return Arguments{values[index].template to<std::tuple_element_t<index, Arguments>>()...};
    };
    return {Options::from(read(std::make_index_sequence<std::tuple_size_v<Arguments>>()))};
  }
};

/// The one autograd function. `Sums` gives `forward`, `backward`, and itself as a value that a graph
/// saves.
template <class Sums>
class SumsFunction : public torch::autograd::Function<SumsFunction<Sums>> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

 public:
  static constexpr bool is_traceable = true;

  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& feature_scale,
                            const Sums& sums) {
    const auto [y, state] = sums.forward({q, k, v, feature_scale}, /*save=*/true);
    context->save_for_backward({q, k, v, feature_scale.value_or(at::Tensor()), state});
    context->saved_data["sums"] = sums.saved();
    return y;
  }

  static Variables backward(Context* context, Variables gradients) {
    const Variables saved = context->get_saved_variables();
    const std::optional<at::Tensor> scale =
        saved[3].defined() ? std::optional(saved[3]) : std::nullopt;
    const bool with_scale = scale.has_value() && context->needs_input_grad(3);
    const auto [dq, dk, dv, dscale] =
        Sums::from(context->saved_data["sums"])
            .backward({saved[0], saved[1], saved[2], scale}, {saved[4], gradients[0], with_scale});
    return {dq, dk, dv, with_scale ? dscale : at::Tensor(), at::Tensor()};
  }
};

/// y (B, H, N, d) of any Sums, differentiable in the inputs.
template <class Sums>
at::Tensor attend_by(const AttentionInputs& in, const Sums& sums) {
  if (wants_gradient({in.q, in.k, in.v}) ||
      (in.feature_scale.has_value() && wants_gradient(*in.feature_scale)))
    return SumsFunction<Sums>::apply(in.q, in.k, in.v, in.feature_scale, sums);
  return std::get<0>(sums.forward(in, /*save=*/false));
}

/// y by a family's operators.
template <class Options>
at::Tensor attend(const AttentionInputs& in, const Options& options) {
  return attend_by(in, OperatorSums<Options>{options});
}

/// The choices of an operator's argument, by their names.
template <class Enum>
using Choices = std::initializer_list<std::pair<std::string_view, Enum>>;

/// The choice called `name`; else an error that names operator and argument and lists the choices.
template <class Enum>
Enum choice_of(const char* op, const char* argument, std::string_view name,
               const Choices<Enum>& choices) {
  std::string known;
  for (const auto& [word, value] : choices) {
    if (word == name) return value;
    known.append(known.empty() ? "" : ", ").append(word);
  }
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is '", name, "', expected one of ",
              known);
}

/// The choice whose value is `number`, as the private operators have it; else an error that names
/// operator and argument.
template <class Enum>
Enum choice_numbered(const char* op, const char* argument, std::int64_t number,
                     const Choices<Enum>& choices) {
  for (const auto& [word, value] : choices)
    if (static_cast<std::int64_t>(value) == number) return value;
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is ", number, ", which is no choice");
}

}  // namespace hydrascope::model::ops
