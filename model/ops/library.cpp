// The operators for Python: names, signatures, checks and shapes; C++ calls the same passes directly.
// Names that begin with an underscore are the machinery of autograd and torch.compile: a forward pass
// that also returns the tensors of its backward pass, and the backward pass, as operators of their own
// so that both can be traced. They take choices as numbers.
//
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
#include "model/ops/hydra_attention.h"
#include "model/ops/kernel_errors.h"
#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using c10::IValue;
using kernels::hydra::Norm;
using kernels::linear_attention::Feature;
using OptionalTensor = std::optional<Tensor>;
using torch::jit::Stack;

/// The choices of an operator's argument, by their names.
template <class Enum>
using Choices = std::initializer_list<std::pair<std::string_view, Enum>>;

const Choices<Norm> kNorms{{"l2", Norm::l2}, {"l1", Norm::l1}, {"none", Norm::none}};
const Choices<Feature> kFeatures{{"elu", Feature::elu_plus_one},
                                 {"elu_plus_one", Feature::elu_plus_one},
                                 {"relu", Feature::relu},
                                 {"unit", Feature::unit},
                                 {"exp", Feature::exp},
                                 {"exp_pair", Feature::exp_pair},
                                 {"softmax_pair", Feature::softmax_pair},
                                 {"softmax_both", Feature::softmax_both},
                                 {"exp_centred", Feature::exp_centred}};
const Choices<Normaliser::Rule> kNormalisers{{"add_eps", Normaliser::Rule::add_eps},
                                             {"none", Normaliser::Rule::none}};
const Choices<Feature> kVariants{{"exp", Feature::exp_pair},
                                 {"softmax2", Feature::softmax_pair},
                                 {"softmax1", Feature::softmax_both},
                                 {"expdim", Feature::exp_centred},
                                 {"exp_pos", Feature::exp}};

/// The number of the choice called `name`; else an error that names operator and argument and lists
/// the choices.
template <class Enum>
std::int64_t number_of(const char* op, const char* argument, std::string_view name,
                       const Choices<Enum>& choices) {
  std::string known;
  for (const auto& [word, value] : choices) {
    if (word == name) return static_cast<std::int64_t>(value);
    known.append(known.empty() ? "" : ", ").append(word);
  }
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is '", name, "', expected one of ",
              known);
}

/// The choice of a number; else an error that names operator and argument.
template <class Enum>
Enum choice_of(const char* op, const char* argument, const IValue& number,
               const Choices<Enum>& choices) {
  for (const auto& [word, value] : choices)
    if (static_cast<std::int64_t>(value) == number.toInt()) return value;
  TORCH_CHECK(false, "hydrascope::", op, ": ", argument, " is ", number.toInt(),
              ", which is no choice");
}

float as_float(const IValue& value) { return static_cast<float>(value.toDouble()); }

// The families: name, options as the private operators' arguments, and passes of their values. The
// last three options of each are the token weights.

struct Hydra {
  static constexpr const char* kName = HydraSums::kName;
  static constexpr const char* kOptions =
      "int norm_q, float eps_q, int norm_k, float eps_k, int num_prefix, float prefix_weight, "
      "float patch_weight";
  static AttentionSumsPtr sums(const IValue* options, const TokenWeights& weights) {
    const auto rule = [&](const char* argument, const IValue* at) -> kernels::hydra::NormRule {
      return {choice_of(kName, argument, at[0], kNorms), as_float(at[1])};
    };
    return c10::make_intrusive<HydraSums>(
        kernels::hydra::Kernel{rule("norm_q", options), rule("norm_k", options + 2)}, weights);
  }
};

struct Linear {
  static constexpr const char* kName = LinearSums::kName;
  static constexpr const char* kOptions =
      "int feature, int normaliser, float eps, float unit_eps, int num_prefix, "
      "float prefix_weight, float patch_weight";
  static AttentionSumsPtr sums(const IValue* options, const TokenWeights& weights) {
    const Feature feature = choice_of(kName, "feature", options[0], kFeatures);
    const auto rule = choice_of(kName, "normaliser", options[1], kNormalisers);
    // These maps do not ask for the tokens' places.
    return c10::make_intrusive<LinearSums>(kernel_map({feature, as_float(options[3])}),
                                           Normaliser{rule, as_float(options[2])}, TokenGrid{},
                                           weights);
  }
};

// ---- hedgehog's networks

constexpr const char* kHedgehog = "hedgehog_attention";

void check_network(const char* side, const Tensor& x, const OptionalTensor& weight,
                   const OptionalTensor& bias) {
  c10::SymInt width = x.sym_size(3);
  if (weight.has_value()) {
    const std::int64_t dims = weight->dim();
    TORCH_CHECK((dims == 2 || (dims == 3 && weight->sym_size(0) == x.sym_size(1))) &&
                    weight->sym_size(dims - 2) == x.sym_size(3),
                "hydrascope::", kHedgehog, ": weight_", side, " has shape ", weight->sym_sizes(),
                ", expected (heads, head_dim, width) or (head_dim, width) with heads ",
                x.sym_size(1), " and head_dim ", x.sym_size(3));
    width = weight->sym_size(dims - 1);
  }
  if (!bias.has_value()) return;
  const std::int64_t dims = bias->dim();
  TORCH_CHECK((dims == 1 || (dims == 2 && bias->sym_size(0) == x.sym_size(1))) &&
                  bias->sym_size(dims - 1) == width,
              "hydrascope::", kHedgehog, ": bias_", side, " has shape ", bias->sym_sizes(),
              ", expected (heads, width) or (width) with heads ", x.sym_size(1), " and width ",
              width);
}

// ---- private operators, in the dispatcher's boxed form

/// Takes a private operator's arguments from `stack` and puts the tensors of `pass(inputs, sums, more)`
/// there; `more` are the arguments behind the options.
template <class Family, class Pass>
void run(const c10::OperatorHandle& op, Stack* stack, const Pass& pass) {
  const std::size_t count = op.schema().arguments().size();
  const Stack all = torch::jit::last(stack, count).vec();
  torch::jit::drop(stack, count);
  const Tensor q = all[0].toTensor(), k = all[1].toTensor(), v = all[2].toTensor();
  const auto scale = all[3].toOptional<Tensor>();
  const IValue* const options = &all[4];
  const TokenWeights weights{options[4].toInt(), options[5].toDouble(), options[6].toDouble()};
  const AttentionSumsPtr sums = Family::sums(options, weights);
  const AttentionInputs in{q, k, v, scale};
  sums->check(in);
  const at::NoGradGuard none;
  with_kernel_errors(Family::kName, [&] {
    for (Tensor& one : pass(in, *sums, options + 7)) stack->emplace_back(std::move(one));
  });
}

/// `kShapes`: shapes and dtypes alone.
template <class Family, bool kShapes>
void forward(const c10::OperatorHandle& op, Stack* stack) {
  run<Family>(
      op, stack, [](const AttentionInputs& in, const AttentionSums& family, const IValue* more) {
        const bool save = more[0].toBool();
        auto [y, sums] =
            kShapes ? AttentionForward{empty_token_rows(in.v), Tensor()} : family.forward(in, save);
        if (!save) {
          sums = at::empty({0}, in.q.options().dtype(compute_type(in.q)));
        } else if (kShapes || sums.numel() == 0) {
          sums = family.empty_sums(in);
        }
        return std::vector{y, sums};
      });
}

template <class Family, bool kShapes>
void backward(const c10::OperatorHandle& op, Stack* stack) {
  run<Family>(
      op, stack, [](const AttentionInputs& in, const AttentionSums& family, const IValue* more) {
        const Tensor sums = more[0].toTensor(), grad_y = more[1].toTensor();
        const bool with_scale = more[2].toBool() && in.feature_scale.has_value();
        auto [dq, dk, dv, dscale] =
            kShapes ? AttentionBackward{empty_token_rows(in.q), empty_token_rows(in.k),
                                        empty_token_rows(in.v),
                                        with_scale ? at::empty_like(*in.feature_scale) : Tensor()}
                    : family.backward(in, {sums, grad_y, with_scale});
        if (!dscale.defined()) dscale = at::empty({0}, sums.options());
        return std::vector{dq, dk, dv, dscale};
      });
}

/// The passes by way of the dispatcher.
template <class Family>
struct OperatorPasses {
  [[nodiscard]] AttentionForward forward(const AttentionInputs& in, bool save) const {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Stack found = call("_forward", in, {save});
    return {found.at(0).toTensor(), found.at(1).toTensor()};
  }
  [[nodiscard]] AttentionBackward backward(const AttentionInputs& in,
                                           const AttentionSaved& saved) const {
    const Stack found = call("_backward", in, {saved.sums, saved.grad_y, saved.with_feature_scale});
    return {found.at(0).toTensor(), found.at(1).toTensor(), found.at(2).toTensor(),
            found.at(3).toTensor()};
  }
  [[nodiscard]] IValue saved() const { return c10::ivalue::Tuple::create(options); }
  static OperatorPasses from(const IValue& saved) { return {saved.toTupleRef().elements().vec()}; }

  [[nodiscard]] Stack call(const char* pass, const AttentionInputs& in,
                           std::initializer_list<IValue> more) const {
    Stack stack{in.q, in.k, in.v, in.feature_scale};
    stack.insert(stack.end(), options.begin(), options.end());
    stack.insert(stack.end(), more);
    const std::string name = std::string("hydrascope::_") + Family::kName + pass;
    c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(stack);
    return stack;
  }

  std::vector<IValue> options;
};

// ---- public operators, made of differentiable ones

void check_eps(const char* op, const char* argument, double eps) {
  TORCH_CHECK(eps >= 0, "hydrascope::", op, ": ", argument, " is ", eps, ", expected at least 0");
}

Tensor hydra_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view norm_q,
                       std::string_view norm_k, double eps, const OptionalTensor& feature_scale,
                       std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  check_eps(Hydra::kName, "eps", eps);
  return attend_by({q, k, v, feature_scale},
                   OperatorPasses<Hydra>{{number_of(Hydra::kName, "norm_q", norm_q, kNorms), eps,
                                          number_of(Hydra::kName, "norm_k", norm_k, kNorms), eps,
                                          num_prefix, prefix_weight, patch_weight}});
}

Tensor linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view feature,
                        std::string_view normaliser, double eps, double unit_eps,
                        std::int64_t num_prefix, double prefix_weight, double patch_weight) {
  check_eps(Linear::kName, "eps", eps);
  check_eps(Linear::kName, "unit_eps", unit_eps);
  return attend_by(
      {q, k, v, std::nullopt},
      OperatorPasses<Linear>{{number_of(Linear::kName, "feature", feature, kFeatures),
                              number_of(Linear::kName, "normaliser", normaliser, kNormalisers), eps,
                              unit_eps, num_prefix, prefix_weight, patch_weight}});
}

Tensor hedgehog_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const OptionalTensor& weight_q, const OptionalTensor& bias_q,
                          const OptionalTensor& weight_k, const OptionalTensor& bias_k,
                          std::string_view variant) {
  const std::int64_t feature = number_of(kHedgehog, "variant", variant, kVariants);
  check_tokens(kHedgehog, q, k, v, /*one_width=*/false);
  check_network("q", q, weight_q, bias_q);
  check_network("k", k, weight_k, bias_k);
  const auto network = [](const Tensor& x, const OptionalTensor& weight,
                          const OptionalTensor& bias) {
    return head_network({weight.value_or(Tensor()), bias.value_or(Tensor())}, x);
  };
  return attend_by(
      {network(q, weight_q, bias_q), network(k, weight_k, bias_k), v, std::nullopt},
      OperatorPasses<Linear>{{feature, std::int64_t{0}, 1e-6, 1e-6, std::int64_t{0}, 1.0, 1.0}});
}

// ---- registration

const std::vector<at::Tag> kTags{at::Tag::pt2_compliant_tag};

template <class Family>
void define(torch::Library& library) {
  const std::string begin = std::string("_") + Family::kName;
  const std::string inputs =
      std::string("(Tensor q, Tensor k, Tensor v, Tensor? feature_scale, ") + Family::kOptions;
  library.def((begin + "_forward" + inputs + ", bool save) -> (Tensor y, Tensor sums)").c_str(),
              kTags);
  library.def((begin + "_backward" + inputs +
               ", Tensor sums, Tensor grad_y, bool with_feature_scale) "
               "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_feature_scale)")
                  .c_str(),
              kTags);
}

template <class Family, bool kShapes>
void implement(torch::Library& library) {
  using torch::CppFunction;
  const std::string begin = std::string("_") + Family::kName;
  library.impl((begin + "_forward").c_str(),
               CppFunction::makeFromBoxedFunction<&forward<Family, kShapes>>());
  library.impl((begin + "_backward").c_str(),
               CppFunction::makeFromBoxedFunction<&backward<Family, kShapes>>());
}

}  // namespace

TORCH_LIBRARY(hydrascope, library) {
  library.def(
      "hydra_attention(Tensor q, Tensor k, Tensor v, *, str norm_q='l2', str norm_k='l2', "
      "float eps=1e-6, Tensor? feature_scale=None, int num_prefix=0, "
      "float prefix_weight=1, float patch_weight=1) -> Tensor",
      &hydra_attention, kTags);
  library.def(
      "linear_attention(Tensor q, Tensor k, Tensor v, *, str feature='elu', "
      "str normaliser='add_eps', float eps=1e-6, float unit_eps=1e-6, int num_prefix=0, "
      "float prefix_weight=1, float patch_weight=1) -> Tensor",
      &linear_attention, kTags);
  library.def(
      "hedgehog_attention(Tensor q, Tensor k, Tensor v, Tensor? weight_q=None, "
      "Tensor? bias_q=None, Tensor? weight_k=None, Tensor? bias_k=None, *, str variant='exp') "
      "-> Tensor",
      &hedgehog_attention, kTags);
  define<Hydra>(library);
  define<Linear>(library);
}
TORCH_LIBRARY_IMPL(hydrascope, CompositeExplicitAutograd, library) {
  implement<Hydra, false>(library);
  implement<Linear, false>(library);
}
TORCH_LIBRARY_IMPL(hydrascope, Meta, library) {
  implement<Hydra, true>(library);
  implement<Linear, true>(library);
}
TORCH_LIBRARY_IMPL(hydrascope, Autograd, library) {
  // Whoever differentiates a backward pass again is told its name.
  for (const char* name : {"_hydra_attention_forward", "_hydra_attention_backward",
                           "_linear_attention_forward", "_linear_attention_backward"})
    library.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace hydrascope::model::ops
