// The operators' names and signatures. Names that begin with an underscore are the machinery of
// autograd and torch.compile: a forward pass that also returns the tensors of its backward pass,
// and the backward pass, as operators of their own so that both can be traced
// (attention_operator.h).
#include "model/ops/hydra_attention.h"
#include "model/ops/linear_attention.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <string>
#include <utility>
#include <vector>

TORCH_LIBRARY(hydrascope, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  library.def(
      "hydra_attention(Tensor q, Tensor k, Tensor v, *, str norm_q='l2', str norm_k='l2', "
      "float eps=1e-6, Tensor? feature_scale=None, int num_prefix=0, "
      "float prefix_weight=1, float patch_weight=1) -> Tensor",
      tags);
  library.def(
      "linear_attention(Tensor q, Tensor k, Tensor v, *, str feature='elu', "
      "str normaliser='add_eps', float eps=1e-6, float unit_eps=1e-6, int num_prefix=0, "
      "float prefix_weight=1, float patch_weight=1) -> Tensor",
      tags);
  library.def(
      "hedgehog_attention(Tensor q, Tensor k, Tensor v, Tensor? weight_q=None, "
      "Tensor? bias_q=None, Tensor? weight_k=None, Tensor? bias_k=None, *, str variant='exp') "
      "-> Tensor",
      tags);

  using hydrascope::model::ops::HydraOptions;
  using hydrascope::model::ops::LinearOptions;
  for (const auto& [family, arguments] :
       {std::pair<std::string, std::string>{"_hydra_attention", HydraOptions::kArguments},
        {"_linear_attention", LinearOptions::kArguments}}) {
    const std::string inputs =
        "(Tensor q, Tensor k, Tensor v, Tensor? feature_scale, " + arguments + ", ";
    const std::string forward =
        family + "_forward" + inputs + "bool save) -> (Tensor y, Tensor sums)";
    const std::string backward =
        family + "_backward" + inputs +
        "Tensor sums, Tensor grad_y, bool with_feature_scale) "
        "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_feature_scale)";
    library.def(forward.c_str(), tags);
    library.def(backward.c_str(), tags);
  }
}

TORCH_LIBRARY_IMPL(hydrascope, Autograd, library) {
  // Whoever differentiates a backward pass again is told its name.
  for (const char* name : {"_hydra_attention_forward", "_hydra_attention_backward",
                           "_linear_attention_forward", "_linear_attention_backward"})
    library.impl(name, torch::autograd::autogradNotImplementedFallback());
}
