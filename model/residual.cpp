#include "model/residual.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <ranges>
#include <span>
#include <unordered_set>
#include <utility>

namespace hydrascope::model {

GateImpl::GateImpl(std::int64_t embed_dim, Initialisation initialisation) {
  constexpr double kNearIdentity = 2;
  w_ = register_module("w", make_linear(embed_dim, 3 * embed_dim, false, initialisation));
  u_ = register_module("u", make_linear(embed_dim, 3 * embed_dim, false, initialisation));
  bias_ = register_parameter("bias", torch::full({embed_dim}, kNearIdentity));
}

torch::Tensor GateImpl::forward(const torch::Tensor& stream, const torch::Tensor& branch) {
  const std::int64_t dim = stream.size(-1);
  const auto of_branch = w_->forward(branch).chunk(3, -1);
  const auto of_stream = at::linear(stream, u_->weight.narrow(0, 0, 2 * dim)).chunk(2, -1);
  const torch::Tensor reset = (of_branch[0] + of_stream[0]).sigmoid();
  const torch::Tensor update = (of_branch[1] + of_stream[1] - bias_).sigmoid();
  const torch::Tensor candidate =
      (of_branch[2] + at::linear(reset * stream, u_->weight.narrow(0, 2 * dim, dim))).tanh();
  return (1 - update) * stream + update * candidate;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ReversibleRun final : torch::CustomClassHolder {
  ReversibleRun(std::vector<ReversibleBlock> blocks_, AutocastState autocast_)
      : blocks(std::move(blocks_)), autocast(autocast_) {}
  std::vector<ReversibleBlock> blocks;
  AutocastState autocast;
};
using ReversibleRunPtr = c10::intrusive_ptr<ReversibleRun>;

Streams forward_through(const std::vector<ReversibleBlock>& blocks, Streams x) {
  for (const ReversibleBlock& block : blocks) {
    x.first = x.first + block.f(x.second);
    x.second = x.second + block.g(x.first);
  }
  return x;
}

/// Each tensor once: blocks may share them.
std::vector<at::Tensor> weights_of_all(const std::vector<ReversibleBlock>& blocks) {
  std::vector<at::Tensor> all;
  std::unordered_set<const void*> known;
  for (const ReversibleBlock& block : blocks)
    for (const at::Tensor& weight : block.weights)
      if (known.insert(weight.unsafeGetTensorImpl()).second) all.push_back(weight);
  return all;
}

/// A branch computed again, and the gradients of its input and of the weights from its output's.
struct BranchAgain {
  at::Tensor output;
  variable_list gradients;  ///< undefined where nothing depends on a tensor
};
BranchAgain differentiate_branch(const TensorFunction& branch, const at::Tensor& x,
                                 const at::Tensor& gradient, const variable_list& weights) {
  const at::Tensor leaf = x.detach().requires_grad_();
  at::Tensor y;
  {
    const at::AutoGradMode record(true);
    y = branch(leaf);
  }
  variable_list wanted{leaf};
  wanted.insert(wanted.end(), weights.begin(), weights.end());
  variable_list found =
      torch::autograd::grad({y}, wanted, {gradient.to(y.scalar_type())}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  return {y.detach(), std::move(found)};
}

/// The inputs are the streams and the weights; the streams behind the blocks are saved.
class ReversibleFunction : public torch::autograd::Function<ReversibleFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& first,
                               const at::Tensor& second, at::TensorList weights,
                               const ReversibleRunPtr& run) {
    Streams y = forward_through(run->blocks, {first, second});
    variable_list saved{y.first, y.second};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["run"] = c10::IValue::make_capsule(run);
    return {y.first, y.second};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled())
      throw Error(ErrorCode::failed, "has no second derivative through reversible blocks",
                  "backward pass");
    const variable_list saved = context->get_saved_variables();
    const auto run =
        c10::static_intrusive_pointer_cast<ReversibleRun>(context->saved_data["run"].toCapsule());
    const AutocastGuard guard(saved[0].device().type(), run->autocast);
    at::Tensor y1 = saved[0].detach();
    at::Tensor y2 = saved[1].detach();
    at::Tensor d1 = gradients[0].defined() ? gradients[0] : at::zeros_like(y1);
    at::Tensor d2 = gradients[1].defined() ? gradients[1] : at::zeros_like(y2);
    const std::span<const at::Tensor> weights = std::span(saved).subspan(2);
    variable_list learned;
    std::vector<std::size_t> places;  // of `learned` in the result
    variable_list result(2 + weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!weights[i].requires_grad()) continue;
      learned.push_back(weights[i]);
      places.push_back(2 + i);
    }
    const auto add = [](at::Tensor& sum, const at::Tensor& part) {
      if (part.defined()) sum = sum.defined() ? sum + part : part;
    };
    const auto go_back = [&](const TensorFunction& branch, const at::Tensor& input,
                             const at::Tensor& d_output, at::Tensor& stream, at::Tensor& d_input) {
      const BranchAgain again = differentiate_branch(branch, input, d_output, learned);
      stream = stream - again.output;
      add(d_input, again.gradients[0]);
      for (std::size_t i = 0; i < places.size(); ++i)
        add(result[places[i]], again.gradients[1 + i]);
    };
    for (const ReversibleBlock& block : std::views::reverse(run->blocks)) {
      go_back(block.g, y1, d2, y2, d1);
      go_back(block.f, y2, d1, y1, d2);
    }
    result[0] = d1;
    result[1] = d2;
    result.emplace_back();  // the run
    return result;
  }
};

}  // namespace

Streams run_reversible(const std::vector<ReversibleBlock>& blocks, const Streams& streams) {
  if (!at::GradMode::is_enabled()) return forward_through(blocks, streams);
  const std::vector<at::Tensor> weights = weights_of_all(blocks);
  const variable_list y =
      ReversibleFunction::apply(streams.first, streams.second, at::TensorList(weights),
                                c10::make_intrusive<ReversibleRun>(
                                    blocks, AutocastState::current(streams.first.device().type())));
  return {y[0], y[1]};
}

Streams invert(const std::vector<ReversibleBlock>& blocks, Streams y) {
  const at::NoGradGuard no_grad;
  for (const ReversibleBlock& block : std::views::reverse(blocks)) {
    y.second = y.second - block.g(y.first);
    y.first = y.first - block.f(y.second);
  }
  return y;
}

}  // namespace hydrascope::model
