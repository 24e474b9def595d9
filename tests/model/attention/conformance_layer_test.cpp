// Every entry of the registry inside of a layer and of a model: tracing changes nothing, a
// checkpoint gives the same function back, what it adds to a checkpoint is what it declares.
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"
#include "tests/model/tensor_match.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;
using model::VitConfig;

class ConformanceLayerTest : public RegistryCase {};

VitConfig tiny(const AttentionSpec& spec) {
  VitConfig config;
  config.arch = "tiny";
  config.img_height = config.img_width = 32;
  config.patch_size = 8;
  config.embed_dim = 32;
  config.depth = 2;
  config.num_heads = 2;
  config.num_classes = 5;
  config.attention = {AttentionSpec{}, spec};
  return config;
}

/// All weights away from their initial values.
model::VisionTransformer shaken(const VitConfig& config) {
  model::VisionTransformer model(config);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters())
    parameter.add_(at::randn(parameter.sizes()), 0.1);
  return model;
}

TEST_P(ConformanceLayerTest, TheTraceIsAllButTheOutputProjection) {
  const TokenGrid grid{1, 4, 4};
  for (const AttentionSpec& spec : variants(entry())) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(1);
    model::Attention layer(tiny(spec), 1);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference, Kernels::automatic}) {
      for (const bool gradients : {false, true}) {
        const c10::AutoGradMode mode(gradients);
        const at::Tensor x = at::randn({2, grid.num_tokens(), 32});
        EXPECT_TRUE(at::equal(layer->project_out(layer->trace(x, grid, kernels).output),
                              layer->forward(x, grid, kernels)));
      }
    }
  }
}

TEST_P(ConformanceLayerTest, TheFirstTokensAreMixedAsAmongAll) {
  const TokenGrid grid{1, 4, 4};
  for (const AttentionSpec& spec : variants(entry())) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(4);
    model::Attention layer(tiny(spec), 1);
    layer->to(at::kDouble);
    const at::Tensor x = at::randn({2, grid.num_tokens(), 32}, at::kDouble).requires_grad_();
    const at::Tensor all = layer->trace(x, grid, Kernels::automatic).output;
    for (const std::int64_t count : {1, 3, 17}) {
      const at::Tensor wanted = all.narrow(1, 0, count);
      const at::Tensor found = layer->mix(x, grid, count);
      EXPECT_TRUE(all_near(found, wanted, 1e-9)) << count;
      const at::Tensor g = at::randn_like(wanted);
      const auto gradient = [&](const at::Tensor& y) {
        return torch::autograd::grad({(y * g).sum()}, {x}, {}, /*retain_graph=*/true)[0];
      };
      EXPECT_TRUE(all_near(gradient(found), gradient(wanted), 1e-9)) << count;
    }
  }
}

TEST_P(ConformanceLayerTest, ACheckpointGivesTheSameFunctionBack) {
  const c10::InferenceMode inference;
  const TemporaryFolder folder;
  for (const AttentionSpec& spec : variants(entry())) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(2);
    model::VisionTransformer saved = shaken(tiny(spec));
    const std::filesystem::path file = folder.path() / "model.safetensors";
    checkpoint::save_checkpoint(file, *saved, checkpoint::Dtype::F32, {});
    const checkpoint::Checkpoint opened = checkpoint::Checkpoint::open(file);
    const VitConfig config = opened.deduce_config();
    EXPECT_EQ(config, saved->config());
    EXPECT_EQ(config.attention_of(1),
              model::with_all_options({spec}, config.training_grid()).front());
    at::manual_seed(3);  // other initial weights and directions
    model::VisionTransformer loaded(config);
    opened.load_into(*loaded);
    const at::Tensor image = at::randn({2, 3, 32, 32});
    EXPECT_TRUE(at::equal(saved->forward(image), loaded->forward(image)));
  }
}

/// "feature_map.{q,k}.weight" -> both names.
std::vector<std::string> expanded(const std::string& name) {
  const auto open = name.find('{');
  if (open == std::string::npos) return {name};
  const auto close = name.find('}', open);
  std::vector<std::string> names;
  for (auto first = open + 1; first < close;) {
    const auto last = std::min(name.find(',', first), close);
    for (const std::string& rest : expanded(name.substr(close + 1)))
      names.push_back(name.substr(0, open) + name.substr(first, last - first) + rest);
    first = last + 1;
  }
  return names;
}

std::set<std::string> added_tensors(const AttentionSpec& spec) {
  const MixerUnderTest mixer(spec, {1, 4, 4});
  std::set<std::string> names;
  for (const auto& item : mixer.owner().named_parameters()) names.insert(item.key());
  for (const auto& item : mixer.owner().named_buffers()) names.insert(item.key());
  return names;
}

TEST_P(ConformanceLayerTest, AddedTensorsAreDeclared) {
  std::set<std::string> declared;
  for (const model::MechanismParameter& parameter : entry().parameters) {
    for (const std::string& name : expanded(parameter.name)) declared.insert(name);
    EXPECT_FALSE(parameter.shape.empty() || parameter.initialisation.empty()) << parameter.name;
  }
  EXPECT_TRUE(std::ranges::includes(declared, added_tensors(spec_of(entry().name))));
  std::set<std::string> ever_added;
  for (const AttentionSpec& spec : variants(entry())) ever_added.merge(added_tensors(spec));
  EXPECT_TRUE(std::ranges::includes(ever_added, declared));
}

TEST_P(ConformanceLayerTest, TheEntryDescribesItself) {
  EXPECT_FALSE(entry().summary.empty());
  EXPECT_FALSE(entry().citation.empty());
  EXPECT_FALSE(entry().map_definition.empty());
  ASSERT_TRUE(entry().cost);
  const TokenGrid trained{1, 14, 14};
  // So large that neighbourhoods which the picture's border cuts are few.
  const TokenGrid grid{4, 112, 112};
  const double elements = static_cast<double>(grid.num_tokens()) * 192;
  const model::MixerSize size{grid, 192, 3, 4, trained};
  const model::MixerSize larger{{4, 224, 224}, 192, 3, 4, trained};
  for (const AttentionSpec& spec : variants(entry())) {
    SCOPED_TRACE(describe(spec));
    const model::MixerCost cost = entry().cost(size, spec);
    const double growth = entry().cost(larger, spec).flops / cost.flops;
    // At least every element once, and read and written as float32.
    EXPECT_GE(cost.flops, elements);
    EXPECT_GE(cost.bytes, 4 * elements * 4);
    if (entry().quadratic) {
      EXPECT_GT(growth, 12);
    } else if (entry().sparse) {  // rows, columns and summaries of tiles grow with the picture
      EXPECT_LT(growth, 16);
      EXPECT_LE(cost.flops, model::find_mechanism("softmax").cost(size, spec_of("softmax")).flops);
    } else {
      EXPECT_LT(growth, 4.2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ConformanceLayerTest, all_entries(), entry_name);

}  // namespace
}  // namespace hydrascope::testing
