#include "model/activation_recomputation.h"

#include "kernels/error.h"
#include "model/autocast_guard.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hydrascope::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Run final : torch::CustomClassHolder {
  Run(TensorFunction function_, AutocastState autocast_)
      : function(std::move(function_)), autocast(autocast_) {}
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const {
    const AutocastGuard guard(x.device().type(), autocast);
    return function(x);
  }
  TensorFunction function;
  AutocastState autocast;
};
using RunPtr = c10::intrusive_ptr<Run>;

/// The inputs are x and the parameters; nothing else is saved.
class RecomputedFunction : public torch::autograd::Function<RecomputedFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, const RunPtr& run) {
    variable_list saved{x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["run"] = c10::IValue::make_capsule(run);
    return (*run)(x);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw Error(ErrorCode::failed, "has no second derivative where activations are recomputed",
                  "backward pass");
    }
    variable_list inputs = context->get_saved_variables();
    const RunPtr run =
        c10::static_intrusive_pointer_cast<Run>(context->saved_data["run"].toCapsule());
    inputs[0] = inputs[0].detach().requires_grad_(inputs[0].requires_grad());
    at::Tensor y;
    {
      const at::AutoGradMode record(true);
      y = (*run)(inputs[0]);
    }
    variable_list wanted;
    for (const at::Tensor& input : inputs)
      if (input.requires_grad()) wanted.push_back(input);
    variable_list found = torch::autograd::grad({y}, wanted, {gradients[0]}, /*retain_graph=*/false,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    variable_list result;
    auto next = found.begin();
    for (const at::Tensor& input : inputs)
      result.push_back(input.requires_grad() ? std::move(*next++) : at::Tensor());
    result.emplace_back();  // the run
    return result;
  }
};

}  // namespace

at::Tensor recomputed_in_backward(const TensorFunction& function, const at::Tensor& x,
                                  const std::vector<at::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return function(x);
  return RecomputedFunction::apply(
      x, at::TensorList(parameters),
      c10::make_intrusive<Run>(function, AutocastState::current(x.device().type())));
}

}  // namespace hydrascope::model
