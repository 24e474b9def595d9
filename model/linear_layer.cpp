#include "model/linear_layer.h"

#include <torch/nn/init.h>

namespace hydrascope::model {

void initialise(torch::nn::LinearImpl& linear) {
  const torch::NoGradGuard no_grad;
  torch::nn::init::normal_(linear.weight, 0.0, kInitStd);
  if (linear.bias.defined()) torch::nn::init::zeros_(linear.bias);
}

torch::nn::Linear make_linear(std::int64_t in, std::int64_t out, bool bias,
                              Initialisation initialisation) {
  torch::nn::Linear linear(torch::nn::LinearOptions(1, 1).bias(bias));
  linear->options.in_features(in).out_features(out);
  linear->weight.set_data(torch::empty({out, in}));
  if (bias) linear->bias.set_data(torch::empty({out}));
  if (initialisation == Initialisation::random) initialise(*linear);
  return linear;
}

std::vector<torch::Tensor> weights_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> weights = module.parameters();
  for (const auto& part : module.modules(/*include_self=*/false))
    if (const auto* linear = part->as<torch::nn::LinearImpl>(); linear && !linear->weight.is_leaf())
      weights.push_back(linear->weight);
  return weights;
}

}  // namespace hydrascope::model
