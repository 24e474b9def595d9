// From a picture to its explanation: what the plans and the modules leave of a run, and the bundled
// weights.
#include "model/inference/classifier.h"
#include "tests/model/explain/brute_force.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace {

using checkpoint::Checkpoint;
using model::Classifier;
using model::Kernels;
using model::VitConfig;
using model::explain::Explainer;
using model::explain::Explanation;
using model::explain::Method;
using model::explain::Request;

/// Layers of all three kinds, untrained where they are not softmax, over the bundled weights.
const char* const kSpecs[]{"softmax", "softmax:0-9,hydra:10-11", "hedgehog:last4"};

class BundledModel {
 public:
  explicit BundledModel(const std::string& attention)
      : weights_(Checkpoint::open(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) /
                                  "assets/models/deit_tiny_patch16_224.softmax.safetensors")),
        config_(weights_.deduce_config()) {
    config_.attention.resize(static_cast<std::size_t>(config_.depth));
    model::apply_attention_spec(attention, config_.attention);
  }
  [[nodiscard]] const VitConfig& config() const { return config_; }

  [[nodiscard]] Classifier classifier(Kernels kernels, std::vector<std::int64_t> layers,
                                      at::ScalarType dtype = at::kFloat) const {
    model::inference::InferenceOptions options;
    options.kernels = kernels;
    options.precision.dtype = dtype;
    options.trace_layers = std::move(layers);
    return Classifier(config_, weights_, options);
  }
  [[nodiscard]] Explainer explainer(const std::vector<Request>& requests) const {
    return Explainer(config_, requests, [this](model::VisionTransformerImpl& model, auto layers) {
      const checkpoint::Loading loading = weights_.start_loading(model);
      model::fill(model, loading.weights(), "", model::is_outside_blocks);
      for (const std::int64_t layer : layers)
        model::fill(model.block(layer), loading.weights(), model::block_prefix(layer));
    });
  }
  [[nodiscard]] BruteForce brute_force(const at::Tensor& image) const {
    model::VisionTransformer model(config_);
    weights_.load_into(*model);
    return {std::move(model), image};
  }

 private:
  Checkpoint weights_;
  VitConfig config_;
};

/// Coarse blobs, so that patches differ as those of a photograph do.
at::Tensor pictures(std::int64_t count, std::int64_t height, std::int64_t width) {
  at::manual_seed(30);
  return at::upsample_bicubic2d(at::randn({count, 3, 7, 7}), {height, width},
                                /*align_corners=*/false);
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

double cosine(const at::Tensor& a, const at::Tensor& b) {
  return (a.flatten().dot(b.flatten()) / (a.norm() * b.norm())).item<double>();
}

std::vector<Request> requests_of(const VitConfig& config) {
  std::vector<Request> requests{{Method::hydra, 11, 360}, {Method::hydra, 10, 7}};
  if (model::explain::why_not(config, Method::attention, 11).empty())
    requests.push_back({Method::attention, 11});
  return requests;
}

TEST(TraceTest, PlanAndModulesLeaveTheSameTokensAndExplanations) {
  const at::Tensor images = pictures(2, 224, 224);
  for (const char* const spec : kSpecs) {
    const BundledModel bundled(spec);
    const std::vector<Request> requests = requests_of(bundled.config());
    const auto layers = Explainer::traced_layers(bundled.config(), requests);
    Classifier modules = bundled.classifier(Kernels::reference, layers);
    Classifier plan = bundled.classifier(Kernels::automatic, layers);
    Classifier halves = bundled.classifier(Kernels::automatic, layers, at::kBFloat16);
    const at::Tensor expected = modules.engine().compute(images).tokens;
    const at::Tensor of_plan_tokens = plan.engine().compute(images).tokens;
    const at::Tensor of_halves_tokens = halves.engine().compute(images).tokens;
    ASSERT_EQ(expected.sizes(), (at::IntArrayRef{2, 2, 197, 192}));
    EXPECT_LT(relative(of_plan_tokens, expected), 1e-4) << spec;
    EXPECT_LT(relative(of_halves_tokens, expected), 5e-2) << spec;
    Explainer explainer = bundled.explainer(requests);
    for (std::int64_t image = 0; image < 2; ++image) {
      const auto explain = [&](const at::Tensor& tokens) {
        return explainer.explain(tokens[image], {1, 14, 14}, requests);
      };
      const auto of_modules = explain(expected);
      const auto of_plan = explain(of_plan_tokens);
      const auto of_halves = explain(of_halves_tokens);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_LT(relative(all_heat(of_plan[i]), all_heat(of_modules[i])), 1e-4) << spec;
        EXPECT_GT(cosine(all_heat(of_halves[i]), all_heat(of_modules[i])), 0.9) << spec;
      }
    }
  }
}

TEST(TraceTest, LogitsDoNotDependOnATrace) {
  const at::Tensor images = pictures(2, 96, 160);
  for (const char* const spec : kSpecs) {
    const BundledModel bundled(spec);
    for (const Kernels kernels : {Kernels::automatic, Kernels::reference}) {
      Classifier plain = bundled.classifier(kernels, {});
      Classifier traced = bundled.classifier(kernels, {0, 5, 11});
      const model::inference::EngineOutputs of_plain = plain.engine().compute(images);
      const model::inference::EngineOutputs of_traced = traced.engine().compute(images);
      EXPECT_TRUE(at::equal(of_traced.logits, of_plain.logits)) << spec;
      EXPECT_FALSE(of_plain.tokens.defined());
      EXPECT_EQ(of_traced.tokens.sizes(), (at::IntArrayRef{2, 3, 61, 192}));
    }
  }
}

TEST(TraceTest, ExplainedLogitsAreTheClassifiers) {
  const at::Tensor images = pictures(1, 224, 224);
  for (const char* const spec : kSpecs) {
    const BundledModel bundled(spec);
    const std::vector<Request> requests{{Method::hydra, 11, 0}};
    Classifier plan = bundled.classifier(Kernels::automatic, {11});
    const auto [logits, tokens, features, exits] = plan.engine().compute(images);
    Explainer explainer = bundled.explainer(requests);
    EXPECT_LT(relative(explainer.logits(tokens[0], {1, 14, 14}), logits[0]), 1e-4);
  }
}

/// The identities on real weights, by the definitions in double.
TEST(TraceTest, IdentitiesHoldOnTheBundledWeights) {
  for (const char* const spec : kSpecs) {
    const BundledModel bundled(spec);
    const BruteForce truth = bundled.brute_force(pictures(1, 224, 224));
    const std::int64_t index = truth.logits().argmax().item<std::int64_t>();
    for (const std::int64_t layer : {11, 9}) {
      const Explanation found = truth.explain({Method::hydra, layer, index});
      EXPECT_LT(relative_to_largest(all_heat(found), truth.heat({Method::hydra, layer, index})),
                1e-4)
          << spec << ", layer " << layer;
      const double whole = truth.gradient_dot_output(layer, index);
      EXPECT_NEAR(found.total, whole, 1e-4 * std::abs(whole)) << spec << ", layer " << layer;
    }
    for (const Method method : {Method::rollout, Method::grad_rollout, Method::gradcam,
                                Method::attn_gradcam, Method::attention}) {
      const Request request{method, 11, index};
      if (!model::explain::why_not(truth.config(), method, 11).empty()) continue;
      EXPECT_LT(relative_to_largest(all_heat(truth.explain(request)), truth.heat(request)), 1e-4)
          << spec << ", " << model::explain::entry_of(method).name;
    }
  }
}

}  // namespace
}  // namespace hydrascope::testing
