// The operators' names and signatures. What begins with an underscore is the machinery of autograd
// and torch.compile: a forward that also gives what the backward pass reads, and the backward pass,
// as operators of their own so that both can be traced. Enumerations are numbers there.
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

TORCH_LIBRARY(hydrascope, library) {
  const std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  library.def(
      "hydra_attention(Tensor q, Tensor k, Tensor v, *, str norm_q='l2', str norm_k='l2', "
      "str eps_rule='max', float eps=1e-6, Tensor? feature_scale=None, int num_prefix=0, "
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

  library.def(
      "_hydra_attention_forward(Tensor q, Tensor k, Tensor v, Tensor? feature_scale, int norm_q, "
      "int norm_k, int eps_rule, float eps, int num_prefix, float prefix_weight, "
      "float patch_weight) -> (Tensor y, Tensor saved)",
      tags);
  library.def(
      "_hydra_attention_backward(Tensor q, Tensor k, Tensor v, Tensor? feature_scale, "
      "Tensor saved, Tensor grad_y, bool with_feature_scale, int norm_q, int norm_k, int eps_rule, "
      "float eps, int num_prefix, float prefix_weight, float patch_weight) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v, Tensor grad_feature_scale)",
      tags);
  library.def(
      "_linear_attention_forward(Tensor q, Tensor k, Tensor v, bool save, int feature, "
      "int normaliser, float eps, float unit_eps, int num_prefix, float prefix_weight, "
      "float patch_weight) -> (Tensor y, Tensor state, Tensor denominator)",
      tags);
  library.def(
      "_linear_attention_backward(Tensor q, Tensor k, Tensor v, Tensor y, Tensor state, "
      "Tensor denominator, Tensor grad_y, int feature, int normaliser, float eps, float unit_eps, "
      "int num_prefix, float prefix_weight, float patch_weight) "
      "-> (Tensor grad_q, Tensor grad_k, Tensor grad_v)",
      tags);
}

TORCH_LIBRARY_IMPL(hydrascope, Autograd, library) {
  // Whoever differentiates a backward pass again is told its name.
  for (const char* name : {"_hydra_attention_forward", "_hydra_attention_backward",
                           "_linear_attention_forward", "_linear_attention_backward"})
    library.impl(name, torch::autograd::autogradNotImplementedFallback());
}
