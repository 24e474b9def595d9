// Features against the modules' tokens, which are the definition.
#include "model/inference/feature_engine.h"

#include "model/inference/modules_engine.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace feature_engine_test {

constexpr std::array kAll{Features::pooled, Features::class_token, Features::patch_mean,
                          Features::projected};

at::Tensor expected_features(VisionTransformer& model, const at::Tensor& images,
                             Features features) {
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = model->forward_features(images);
  switch (features) {
    case Features::class_token: return tokens.select(1, 0);
    case Features::patch_mean: return tokens.slice(1, model->config().num_prefix_tokens()).mean(1);
    case Features::projected: return model->forward_head(tokens);
    default: return model->forward_pool(tokens);
  }
}

std::unique_ptr<Engine> engine_of(const VisionTransformer& model, Features features,
                                  bool of_modules) {
  const WeightTable weights = with_feature_head(WeightTable(model), features);
  std::unique_ptr<Engine> engine;
  if (of_modules)
    engine = std::make_unique<ModulesEngine>(weights, options());
  else
    engine = std::make_unique<InferencePlan>(weights, options());
  return std::make_unique<FeatureEngine>(std::move(engine), model->config(),
                                         FeatureAnswer{model->config(), features});
}

void expect_features(const VitConfig& config, const at::Tensor& images) {
  VisionTransformer model = filled(config);
  const at::Tensor logits = module_logits(model, images);
  for (const Features features : kAll) {
    SCOPED_TRACE(static_cast<int>(features));
    if (!why_no_features(config, features).empty()) continue;
    const at::Tensor expected = expected_features(model, images, features);
    for (const bool of_modules : {true, false}) {
      const EngineOutputs outputs = engine_of(model, features, of_modules)->compute(images);
      EXPECT_LT(relative(outputs.features, expected), 1e-4);
      const bool has_logits = are_pooled(config, features) || features == Features::projected;
      ASSERT_EQ(outputs.logits.size(1), has_logits ? config.num_classes : 0);
      if (outputs.logits.size(1) > 0) {
        EXPECT_LT(relative(outputs.logits, logits), 1e-4);
      }
    }
  }
}

TEST(FeatureEngineTest, FeaturesAreTheModules) {
  at::manual_seed(3);
  const at::Tensor images = at::randn({2, 3, 64, 48});
  auto shapes = shapes_of_model();
  for (const auto& shape : shapes_of_cpu()) shapes.push_back(shape);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(i);
    VitConfig config = small();
    shapes[i](config);
    expect_features(config, images);
  }
}

/// A tower has features, and logits without columns, by both engines.
TEST(FeatureEngineTest, TowersHaveNoClassifier) {
  at::manual_seed(3);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  for (const Pooling pooling : {Pooling::token, Pooling::avg, Pooling::map}) {
    VitConfig config = small();
    config.num_classes = 0;
    config.global_pool = pooling;
    VisionTransformer model = filled(config);
    for (const auto& [name, tensor] : named_tensors(*model))
      EXPECT_FALSE(name.starts_with("head")) << name;
    EXPECT_EQ(module_logits(model, images).sizes(), (at::IntArrayRef{2, 0}));
    EXPECT_EQ(InferencePlan(model, options()).logits(images).sizes(), (at::IntArrayRef{2, 0}));
    EXPECT_EQ(ModulesEngine(WeightTable(model), options()).logits(images).sizes(),
              (at::IntArrayRef{2, 0}));
    EXPECT_EQ(why_no_features(config, Features::projected), "has no projection and no classifier");
    for (const Features features :
         {Features::pooled, Features::class_token, Features::patch_mean}) {
      const at::Tensor expected = expected_features(model, images, features);
      for (const bool of_modules : {true, false}) {
        const EngineOutputs outputs = engine_of(model, features, of_modules)->compute(images);
        EXPECT_LT(relative(outputs.features, expected), 1e-4);
        EXPECT_EQ(outputs.logits.size(1), 0);
      }
    }
  }
}

/// The logits of a model with features are bitwise the logits of the model.
TEST(FeatureEngineTest, LogitsStayAsTheyAre) {
  at::manual_seed(3);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  VisionTransformer model = filled(small("hydra:2,softmax:0-1"));
  const EngineOutputs outputs = engine_of(model, Features::pooled, false)->compute(images);
  EXPECT_TRUE(at::equal(outputs.logits, InferencePlan(model, options()).logits(images)));
}

TEST(FeatureEngineTest, AnAnswerTakesThePlaceOfTheLogits) {
  at::manual_seed(3);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  VisionTransformer model = filled(small());
  VitConfig answered = model->config();
  answered.num_classes = 2;
  FeatureAnswer answer{model->config()};
  answer.answer = [](const at::Tensor& features, const at::Tensor& logits) {
    return at::stack({features.sum(1), logits.sum(1)}, 1);
  };
  FeatureEngine engine(std::make_unique<InferencePlan>(
                           with_feature_head(WeightTable(model), Features::pooled), options()),
                       answered, answer);
  const at::Tensor found = engine.logits(images);
  EXPECT_LT(relative(found.select(1, 0), expected_features(model, images, Features::pooled).sum(1)),
            1e-4);
  EXPECT_LT(relative(found.select(1, 1), module_logits(model, images).sum(1)), 1e-4);
}

TEST(FeatureEngineTest, FeaturesThatAModelLacks) {
  VitConfig config = small();
  config.class_token = false;
  config.global_pool = Pooling::avg;
  EXPECT_EQ(why_no_features(config, Features::class_token), "has no class token");
  EXPECT_TRUE(are_pooled(config, Features::patch_mean));
  config.fc_norm = true;
  EXPECT_EQ(why_no_features(config, Features::patch_mean), "has no norm before pooling");
  VitConfig distilled = small();
  distilled.distilled = true;
  EXPECT_NE(why_no_features(distilled, Features::patch_mean), "");
  EXPECT_FALSE(are_pooled(distilled, Features::class_token));
  EXPECT_TRUE(are_pooled(small(), Features::class_token));
}

}  // namespace feature_engine_test
}  // namespace hydrascope::model::inference
