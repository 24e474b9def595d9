#include "model/explain/diagnostics.h"

#include "tests/error_matchers.h"
#include "tests/model/explain/brute_force.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;
using model::explain::AttentionDiagnostics;
using model::explain::DiagnosedBlock;
using model::explain::Diagnostic;

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kColumns = 5;

/// A random model twice: in double with every matrix written out, and as modules in float32.
struct Pair {
  explicit Pair(const std::string& attention, std::uint64_t seed = 1)
      : exact(small_config(attention), kRows, kColumns, seed), modules(exact.config()) {
    modules->eval();
    std::vector<std::int64_t> layers(static_cast<std::size_t>(exact.config().depth));
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = static_cast<std::int64_t>(i);
    for (Tensor& parameter : modules->parameters()) parameter.set_requires_grad(false);
    exact.fill()(*modules, layers);
  }
  [[nodiscard]] DiagnosedBlock block(std::int64_t layer) {
    return {modules->block(layer),
            model::find_mechanism(exact.config().attention_of(layer).mechanism),
            exact.config().training_grid()};
  }
  [[nodiscard]] Tensor tokens(std::int64_t layer) const {
    return exact.layer(layer).x.to(at::kFloat);
  }

  BruteForce exact;
  model::VisionTransformer modules;
};

double at_row(const Tensor& numbers, std::int64_t row, Diagnostic diagnostic) {
  return numbers[row][static_cast<std::int64_t>(diagnostic)].item<double>();
}

/// (H, N, N) of a layer's q and k.
Tensor softmax_map(const BruteForce::Layer& layer) {
  const double scale = 1 / std::sqrt(static_cast<double>(layer.q.size(-1)));
  return (layer.q.matmul(layer.k.transpose(-2, -1)) * scale).softmax(-1).squeeze(0);
}

/// Mean over the rows of sum_j p_ij ln(p_ij / a_ij), written out.
double mean_divergence(const Tensor& p, const Tensor& a) {
  double sum = 0;
  for (std::int64_t i = 0; i < p.size(0); ++i) {
    for (std::int64_t j = 0; j < p.size(1); ++j) {
      const double weight = p[i][j].item<double>();
      sum += weight * std::log(weight / a[i][j].item<double>());
    }
  }
  return sum / static_cast<double>(p.size(0));
}

double mean_cosine(const Tensor& a, const Tensor& b) {  // (N, d)
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    sum += (a[i].dot(b[i]) / (a[i].norm() * b[i].norm())).item<double>();
  return sum / static_cast<double>(a.size(0));
}

TEST(SpearmanTest, RanksWithTies) {
  const Tensor a = at::tensor({10.0, 20.0, 30.0, 40.0, 50.0});
  EXPECT_NEAR(model::explain::spearman(a, a.exp()).item<double>(), 1, 1e-12);
  EXPECT_NEAR(model::explain::spearman(a, -a).item<double>(), -1, 1e-12);
  // Ranks 0 1.5 1.5 3 4 against 0 1 2 3 4: covariance 9.5, squares 9.5 and 10.
  const Tensor tied = at::tensor({1.0, 2.0, 2.0, 3.0, 9.0});
  EXPECT_NEAR(model::explain::spearman(a, tied).item<double>(), 9.5 / std::sqrt(95.0), 1e-12);
  EXPECT_TRUE(std::isnan(model::explain::spearman(a, at::ones({5}, at::kDouble)).item<double>()));
  const Tensor two = at::stack({tied, -tied});
  const Tensor both = model::explain::spearman(two, at::stack({a, a}));
  EXPECT_NEAR(both[0].item<double>(), -both[1].item<double>(), 1e-12);
}

TEST(DiagnosticsTest, ALayerOfFeatureMapsByDefinition) {
  Pair pair("hedgehog");
  const std::int64_t layer = 1;
  const Tensor numbers = diagnose_block(pair.block(layer), pair.tokens(layer), pair.exact.grid());
  const Tensor map = pair.exact.map(layer);
  const BruteForce::Layer& inputs = pair.exact.layer(layer);
  const Tensor softmax = softmax_map(inputs);
  const std::int64_t heads = map.size(0);
  ASSERT_EQ(numbers.size(0), heads + 1);
  double sum_of_kl = 0;
  for (std::int64_t head = 0; head < heads; ++head) {
    const Tensor a = map[head];
    const double entropy = (-(a * a.log()).sum(-1)).mean().item<double>();
    EXPECT_NEAR(at_row(numbers, head, Diagnostic::entropy), entropy, 1e-4);
    EXPECT_NEAR(at_row(numbers, head, Diagnostic::entropy_share), entropy / std::log(21.0), 1e-4);
    const double kl = mean_divergence(softmax[head], a);
    EXPECT_GT(kl, 0);
    EXPECT_NEAR(at_row(numbers, head, Diagnostic::softmax_kl), kl, 1e-4 + 1e-3 * kl);
    sum_of_kl += kl;
    const Tensor v = inputs.v[0][head];
    EXPECT_NEAR(at_row(numbers, head, Diagnostic::softmax_cosine),
                mean_cosine(a.matmul(v), softmax[head].matmul(v)), 1e-4);
    EXPECT_TRUE(std::isnan(at_row(numbers, head, Diagnostic::global_norm)));
    EXPECT_TRUE(std::isnan(at_row(numbers, head, Diagnostic::reference_error)));
  }
  EXPECT_NEAR(at_row(numbers, heads, Diagnostic::softmax_kl), sum_of_kl / double(heads), 1e-2);
}

TEST(DiagnosticsTest, SoftmaxIsItsOwnMeasure) {
  Pair pair("softmax");
  const Tensor numbers = diagnose_block(pair.block(0), pair.tokens(0), pair.exact.grid());
  const std::int64_t heads = numbers.size(0) - 1;
  for (std::int64_t row = 0; row <= heads; ++row) {
    EXPECT_NEAR(at_row(numbers, row, Diagnostic::softmax_kl), 0, 1e-5);
    EXPECT_NEAR(at_row(numbers, row, Diagnostic::softmax_cosine), 1, 1e-5);
    EXPECT_NEAR(at_row(numbers, row, Diagnostic::monotonicity), 1, 1e-3);
  }
}

TEST(DiagnosticsTest, TheMassOfSoftmaxNearTheQuery) {
  for (const char* attention : {"softmax", "hydra"}) {
    Pair pair(attention);
    const std::int64_t layer = 1;
    const Tensor numbers = diagnose_block(pair.block(layer), pair.tokens(layer), pair.exact.grid());
    const Tensor map = softmax_map(pair.exact.layer(layer));
    const std::int64_t reach = pair.exact.config().training_grid().rows / 4;
    ASSERT_EQ(reach, 2);
    double of_layer = 0;
    for (std::int64_t head = 0; head < map.size(0); ++head) {
      double sum = 0;
      for (std::int64_t query = 0; query < kRows * kColumns; ++query) {
        sum += map[head][1 + query][0].item<double>();
        for (std::int64_t key = 0; key < kRows * kColumns; ++key) {
          if (std::abs(query / kColumns - key / kColumns) <= reach &&
              std::abs(query % kColumns - key % kColumns) <= reach)
            sum += map[head][1 + query][1 + key].item<double>();
        }
      }
      const double mean = sum / (kRows * kColumns);
      EXPECT_LT(mean, 1);
      EXPECT_NEAR(at_row(numbers, head, Diagnostic::near_mass), mean, 1e-5);
      of_layer += mean / double(map.size(0));
    }
    EXPECT_NEAR(at_row(numbers, map.size(0), Diagnostic::near_mass), of_layer, 1e-5);
  }
}

TEST(DiagnosticsTest, TheGlobalVectorOfHydra) {
  Pair pair("hydra");
  const std::int64_t layer = 2;
  const Tensor numbers = diagnose_block(pair.block(layer), pair.tokens(layer), pair.exact.grid());
  const BruteForce::Layer& inputs = pair.exact.layer(layer);
  const Tensor k = inputs.k.transpose(1, 2).flatten(2)[0];  // (N, D)
  const Tensor v = inputs.v.transpose(1, 2).flatten(2)[0];
  // At another grid than that of training, of 65 tokens, each of these 21 counts 65 / 21.
  const Tensor terms = k / k.norm(2, {-1}, /*keepdim=*/true) * v * (65.0 / 21);
  const Tensor c = terms.sum(0);
  const std::int64_t heads = numbers.size(0) - 1;
  EXPECT_NEAR(at_row(numbers, heads, Diagnostic::global_norm), c.norm().item<double>(),
              1e-3 * c.norm().item<double>());
  EXPECT_NEAR(at_row(numbers, heads, Diagnostic::class_share),
              (terms[0].dot(c) / c.dot(c)).item<double>(), 1e-3);
  const Tensor first = c.narrow(0, 0, c.size(0) / heads);
  EXPECT_NEAR(at_row(numbers, 0, Diagnostic::global_norm), first.norm().item<double>(),
              1e-3 * first.norm().item<double>());
  EXPECT_TRUE(std::isnan(at_row(numbers, 0, Diagnostic::entropy))) << "hydra has no map";
  EXPECT_TRUE(std::isfinite(at_row(numbers, 0, Diagnostic::softmax_cosine)));
}

TEST(DiagnosticsTest, AgainstALayerWithTheSameWeights) {
  Pair softmax("softmax");
  Pair hedgehog("hedgehog");
  const std::int64_t layer = 1;
  // The same projections: what differs is the mechanism.
  auto from = softmax.modules->block(layer).named_parameters();
  for (auto& item : hedgehog.modules->block(layer).named_parameters())
    if (const Tensor* same = from.find(item.key())) item.value().copy_(*same);
  const Tensor tokens = softmax.tokens(layer);
  const auto grid = softmax.exact.grid();
  const Tensor numbers = compare_blocks(hedgehog.block(layer), softmax.block(layer), tokens, grid);
  const Tensor own = diagnose_block(hedgehog.block(layer), tokens, grid);
  const std::int64_t heads = numbers.size(0) - 1;
  for (std::int64_t row = 0; row <= heads; ++row) {
    EXPECT_NEAR(at_row(numbers, row, Diagnostic::reference_kl),
                at_row(own, row, Diagnostic::softmax_kl), 1e-4);
    EXPECT_NEAR(at_row(numbers, row, Diagnostic::reference_cosine),
                at_row(own, row, Diagnostic::softmax_cosine), 1e-4);
    EXPECT_TRUE(std::isnan(at_row(numbers, row, Diagnostic::entropy)));
  }
  // The layers as a whole, by their own forward pass.
  auto& student = hedgehog.modules->block(layer);
  auto& teacher = softmax.modules->block(layer);
  const auto out = [&](model::BlockImpl& block) {
    return block.attention().forward(block.normalise(tokens), grid, model::Kernels::reference);
  };
  const double error = ((out(student) - out(teacher)).norm() / out(teacher).norm()).item<double>();
  EXPECT_GT(error, 0.01);
  EXPECT_NEAR(at_row(numbers, heads, Diagnostic::reference_error), error, 1e-3 * error);
  const Tensor same = compare_blocks(softmax.block(layer), softmax.block(layer), tokens, grid);
  EXPECT_NEAR(at_row(same, heads, Diagnostic::reference_error), 0, 1e-6);
  EXPECT_NEAR(at_row(same, heads, Diagnostic::reference_kl), 0, 1e-6);
}

TEST(DiagnosticsTest, MeansOverPicturesOfAllLayers) {
  Pair pair("softmax:0,hydra:1,hedgehog:2");
  Pair reference("softmax", 2);
  ASSERT_TRUE(AttentionDiagnostics::comparable(pair.exact.config(), reference.exact.config()));
  const std::int64_t patch = pair.exact.config().patch_size;
  at::manual_seed(3);
  const Tensor a = at::randn({3, kRows * patch, kColumns * patch});
  const Tensor b = at::randn({3, kRows * patch, kColumns * patch});
  const auto means_of = [&](const std::vector<Tensor>& images) {
    AttentionDiagnostics diagnostics(*pair.modules, &*reference.modules);
    for (const Tensor& image : images) diagnostics.add(image);
    EXPECT_EQ(diagnostics.images(), std::ssize(images));
    EXPECT_EQ(diagnostics.queries(), 1 + kRows * kColumns);
    return diagnostics.means();
  };
  const Tensor both = means_of({a, b});
  const Tensor mean = (means_of({a}) + means_of({b})) / 2;
  EXPECT_TRUE(at::allclose(both, mean, 1e-9, 1e-12, /*equal_nan=*/true));
  const auto is_defined = [&](std::int64_t layer, Diagnostic diagnostic) {
    return std::isfinite(at_row(both[layer], 0, diagnostic));
  };
  EXPECT_TRUE(is_defined(0, Diagnostic::reference_kl));
  EXPECT_FALSE(is_defined(1, Diagnostic::reference_kl));
  EXPECT_TRUE(is_defined(1, Diagnostic::reference_error));
  EXPECT_TRUE(is_defined(1, Diagnostic::class_share));
  EXPECT_FALSE(is_defined(2, Diagnostic::class_share));
  model::VitConfig deeper = pair.exact.config();
  deeper.depth = 4;
  EXPECT_FALSE(AttentionDiagnostics::comparable(pair.exact.config(), deeper));
}

TEST(DiagnosticsTest, NumbersThatAreNoneAreAnError) {
  Pair pair("softmax");
  AttentionDiagnostics diagnostics(*pair.modules, nullptr);
  const std::int64_t patch = pair.exact.config().patch_size;
  const Tensor image = at::zeros({3, kRows * patch, kColumns * patch});
  pair.modules->named_parameters()["blocks.1.mlp.fc2.bias"].fill_(
      std::numeric_limits<double>::quiet_NaN());
  EXPECT_ERROR(diagnostics.add(image), failed, "NaN or infinite before layer 2");
  EXPECT_EQ(diagnostics.images(), 0);
}

TEST(DiagnosticsTest, LongSequencesAreJudgedBySomeQueries) {
  Pair pair("softmax");
  const std::int64_t patch = pair.exact.config().patch_size;
  AttentionDiagnostics diagnostics(*pair.modules, nullptr);
  at::manual_seed(4);
  diagnostics.add(at::randn({3, 20 * patch, 21 * patch}));
  EXPECT_EQ(diagnostics.queries(), 256);
  EXPECT_NEAR(at_row(diagnostics.means()[0], 0, Diagnostic::softmax_kl), 0, 1e-5);
  EXPECT_LT(at_row(diagnostics.means()[0], 0, Diagnostic::entropy_share), 1);
  const double near = at_row(diagnostics.means()[0], 0, Diagnostic::near_mass);
  EXPECT_GT(near, 0);
  EXPECT_LT(near, 0.5) << "25 of 420 patches";
}

}  // namespace
}  // namespace hydrascope::testing
