// Every mechanism of the registry as operators of PyTorch, for hydrascope.nn: the parameters that a layer of it begins with,
// and its mixing of tokens. The mixer is made anew at each call from the layer's description, and computes with the
// tensors it is given: Python owns the parameters.
#include "app/session/kept_generator.h"
#include "kernels/error.h"
#include "model/attention/attention.h"
#include "model/autocast_guard.h"
#include "model/config/config.h"
#include "model/ops/kernel_errors.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

using at::Tensor;
using Parameters = c10::Dict<std::string, Tensor>;

/// A mixer and the module that its parameters are registered in.
struct BuiltMixer {
  /// `layer`: JSON of "mechanism", "options" (all), "num_heads", "head_dim", "index", "depth" and the training
  /// "grid" (prefix tokens, rows, columns). Throws Error(invalid_argument).
  explicit BuiltMixer(const std::string& layer) {
    const auto json = nlohmann::json::parse(layer);
    const model::AttentionSpec spec{json.at("mechanism"),
                                    json.at("options").get<std::map<std::string, std::string>>()};
    const std::vector<std::int64_t> grid = json.at("grid");
    const model::TokenMixerArguments arguments{json.at("num_heads"),
                                               json.at("head_dim"),
                                               json.at("index"),
                                               json.at("depth"),
                                               {grid.at(0), grid.at(1), grid.at(2)},
                                               spec,
                                               owner};
    mixer = model::find_mechanism(spec.mechanism).make(arguments);
  }
  /// Calls `take(name, tensor)` for all parameters and buffers.
  template <class Take>
  void each(const Take& take) {
    for (const auto& one : owner.named_parameters()) take(one.key(), one.value());
    for (const auto& one : owner.named_buffers()) take(one.key(), one.value());
  }

  torch::nn::Module owner;
  std::unique_ptr<model::TokenMixer> mixer;
};

/// The first values by name; those that learn want gradients.
Parameters mixer_parameters(const std::string& layer) {
  Parameters all;
  model::ops::with_kernel_errors("mixer_parameters", [&] {
    BuiltMixer(layer).each(
        [&](const std::string& name, const Tensor& value) { all.insert(name, value); });
  });
  return all;
}

/// The state that all calls of one mixing share.
struct Mixing {
  const std::string& layer;
  std::vector<std::string> names;  ///< of the parameters
  model::TokenGrid grid;

  /// (B, N, D), differentiable in all inputs that want gradients; `inputs`: q, k, v (B, H, N, d), parameters.
  [[nodiscard]] Tensor of(const std::vector<Tensor>& inputs) const {
    return model::ops::with_kernel_errors("mix", [&] {
      // First values are drawn from the process's generator, and replaced: one call at a time.
      static std::mutex drawing;
      const std::lock_guard lock(drawing);
      const KeptGenerator kept;
      BuiltMixer built(layer);
      std::size_t used = 0;
      built.each([&](const std::string& name, Tensor value) {
        const auto found = std::ranges::find(names, name);
        if (found == names.end())
          throw Error(ErrorCode::invalid_argument, "a parameter is missing", name);
        const Tensor& given = inputs.at(3 + static_cast<std::size_t>(found - names.begin()));
        value.set_data(given.detach());
        value.set_requires_grad(given.requires_grad());
        leaves.insert_or_assign(name, value);
        ++used;
      });
      if (used != names.size())
        throw Error(ErrorCode::invalid_argument, "a parameter that the layer does not have");
      const model::AutocastGuard off(inputs[0].device().type(), {});
      return built.mixer->mix(inputs[0], inputs[1], inputs[2], grid, model::Kernels::automatic);
    });
  }
  mutable std::map<std::string, Tensor> leaves = {};  ///< of the last mixing
};

/// Autograd's function around a graph of its own, whose leaves are the mixer's.
class MixingFunction : public torch::autograd::Function<MixingFunction> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

 public:
  static Tensor forward(Context* context, at::TensorList inputs, const Mixing& mixing) {
    const at::AutoGradMode graph(true);
    Variables leaves;
    for (const Tensor& one : inputs)
      leaves.push_back(one.detach().set_requires_grad(one.requires_grad()));
    const Tensor y = mixing.of(leaves);
    for (std::size_t i = 0; i < mixing.names.size(); ++i)
      leaves[3 + i] = mixing.leaves.at(mixing.names[i]);
    leaves.push_back(y);
    context->saved_data["graph"] = std::move(leaves);
    return y.detach();
  }

  static Variables backward(Context* context, const Variables& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "hydrascope::mix: there are no second derivatives");
    auto& saved = context->saved_data;
    TORCH_CHECK(saved.count("graph") > 0,
                "hydrascope::mix: the graph is gone; a second backward pass needs retain_graph");
    Variables leaves = saved.at("graph").toTensorVector();
    const bool keeps = torch::autograd::get_current_graph_task_keep_graph();
    if (!keeps) saved.erase("graph");
    const Tensor y = leaves.back();
    leaves.pop_back();
    Variables wanted;
    for (const Tensor& one : leaves)
      if (one.requires_grad()) wanted.push_back(one);
    Variables found = torch::autograd::grad({y}, wanted, {gradients.at(0)}, keeps,
                                            /*create_graph=*/false, /*allow_unused=*/true);
    Variables all;
    std::size_t next = 0;
    for (const Tensor& one : leaves) all.push_back(one.requires_grad() ? found[next++] : Tensor());
    all.emplace_back();  // of `mixing`
    return all;
  }
};

/// `grid`: prefix tokens, rows and columns of patches.
Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const Parameters& parameters,
           const std::string& layer, at::IntArrayRef grid) {
  TORCH_CHECK(grid.size() == 3 && q.dim() == 4 && q.size(2) == grid[0] + grid[1] * grid[2],
              "hydrascope::mix: expected (B, H, N, d) and the grid of N tokens");
  Mixing mixing{layer, {}, {grid[0], grid[1], grid[2]}};
  std::vector<Tensor> inputs{q, k, v};
  for (const auto& one : parameters) {
    mixing.names.push_back(one.key());
    inputs.push_back(one.value());
  }
  if (at::GradMode::is_enabled() && std::ranges::any_of(inputs, &Tensor::requires_grad))
    return MixingFunction::apply(at::TensorList(inputs), mixing);
  const at::NoGradGuard none;
  return mixing.of(inputs);
}

}  // namespace
}  // namespace hydrascope::app

TORCH_LIBRARY_FRAGMENT(hydrascope, library) {
  library.def("mixer_parameters", &hydrascope::app::mixer_parameters);
  library.def("mix", &hydrascope::app::mix);
}
