#include "kernels/error.h"
#include "model/training/autocast.h"
#include "model/training/distillation/converted_layers.h"
#include "model/training/distillation/exits_task.h"
#include "model/training/distillation/finetune_task.h"
#include "model/training/distillation/maps_task.h"
#include "model/training/distillation/matching_losses.h"
#include "model/training/distillation/outputs_task.h"
#include "model/training/losses.h"
#include "tests/error_matchers.h"
#include "tests/model/finite_difference.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <fnmatch.h>
#include <utility>

namespace hydrascope::model::training {
namespace {

Batch batch_of(at::Tensor images) { return {std::move(images), {}, 0, 0}; }

std::vector<std::string> moved_names(VisionTransformerImpl& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined() && item.value().grad().abs().sum().item<double>() > 0)
      names.push_back(item.key());
  }
  return names;
}

TEST(ConvertedLayers, TellsWhichLayersDoWhat) {
  const VisionTransformer student(
      small_config("hedgehog:0,softmax:1,hydra:2", {"hydra.feature_scale=on"}));
  const ConvertedLayers layers = converted_layers(small_config(), *student);
  EXPECT_EQ(layers.all, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(layers.maps, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(layers.hydra, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(layers.first(), 0);
}

TEST(ConvertedLayers, ALearnedMapIsTrainedAndImitatesRowsOfTheTeacher) {
  const auto maps = [](const VitConfig& teacher, const VitConfig& student) {
    const VisionTransformer model(student);
    return converted_layers(teacher, *model).maps.size();
  };
  EXPECT_EQ(maps(small_config(), small_config("hedgehog")), 3);
  EXPECT_EQ(maps(small_config(), small_config("t2r")), 3);
  EXPECT_EQ(maps(small_config("elu"), small_config("hedgehog")), 3);
  EXPECT_EQ(maps(small_config(), small_config("performer")), 0);  // drawn, not learned
  EXPECT_EQ(maps(small_config(), small_config("linformer")), 0);  // rows of both signs
  EXPECT_EQ(maps(small_config("hydra"), small_config("hedgehog")), 0);
}

TEST(ConvertedLayers, RefusesWhatIsNoConversion) {
  const VisionTransformer same(small_config());
  EXPECT_TRUE(converted_layers(small_config(), *same).all.empty());
  EXPECT_EQ(converted_layers(small_config(), *same).first(), 0);
  VitConfig wider = small_config("hydra");
  wider.num_classes = 6;
  const VisionTransformer other(wider);
  EXPECT_ERROR(converted_layers(small_config(), *other), invalid_argument, "more than attention");
}

TEST(MapsTask, IsTheCrossEntropyOfTheRowsOnTheTeachersQueriesAndKeys) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student =
      student_of(teacher.model(), small_config("hedgehog", {"hedgehog.variant=softmax2"}));
  const at::Tensor images = random_images(3);
  const TeacherPass seen = teacher.look(images, {0, 1, 2});

  // All rows: nothing is drawn. The map of the equation, from its parameters.
  double expected = 0;
  double entropy = 0;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    const at::NoGradGuard no_grad;
    const auto [q, k] =
        queries_and_keys(teacher.model(), layer, seen.tokens[static_cast<std::size_t>(layer)]);
    const std::string name = "blocks." + std::to_string(layer) + ".attn.feature_map.";
    const auto phi = [&](const at::Tensor& x, const std::string& side) {
      const at::Tensor u = x.matmul(parameter(*student, name + side + ".weight")) +
                           parameter(*student, name + side + ".bias").unsqueeze(1);
      return at::cat({u.softmax(-1), (-u).softmax(-1)}, -1);
    };
    const at::Tensor scores = q.matmul(k.transpose(-2, -1));
    const at::Tensor p = (scores / std::sqrt(8.0)).softmax(-1);
    const at::Tensor w = phi(q, "q").matmul(phi(k, "k").transpose(-2, -1));
    const at::Tensor a = w / w.sum(-1, true);
    expected -= (p * a.log()).sum(-1).mean().item<double>() / 3;
    entropy -= (p * p.log()).sum(-1).mean().item<double>() / 3;
  }
  MapsTask task(teacher, *student, {0, 1, 2}, {.query_rows = 17, .row_chunk = 5});
  const StepLoss cost = task.accumulate(batch_of(images), {});
  EXPECT_NEAR(cost.loss.item<double>(), expected, 1e-4);
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), expected - entropy, 1e-4);

  // Chunks change nothing.
  const at::Tensor chunked = parameter(*student, "blocks.1.attn.feature_map.k.weight").grad();
  const at::Tensor gradient = chunked.clone();
  chunked.zero_();
  MapsTask whole(teacher, *student, {0, 1, 2}, {.query_rows = 17, .row_chunk = 64});
  whole.accumulate(batch_of(images), {});
  EXPECT_TRUE(at::allclose(gradient, chunked, 1e-4, 1e-7));

  // Only maps have a gradient.
  for (const std::string& moved : moved_names(*student))
    EXPECT_NE(moved.find("feature_map"), std::string::npos) << moved;
  EXPECT_EQ(moved_names(*student).size(), 12);
}

/// The gradients of `task`, in double, at some elements of `weights`, against central differences.
void expect_gradient_of_differences(TrainingTask& task, VisionTransformerImpl& student,
                                    const at::Tensor& images,
                                    const std::vector<std::string>& weights) {
  constexpr double kWeight = 0.5;
  const auto value = [&] {
    for (const at::Tensor& weight : student.parameters()) weight.mutable_grad().reset();
    return task.accumulate(batch_of(images), {0, kWeight}).loss;
  };
  for (const std::string& name : weights) {
    value();
    const at::Tensor weight = parameter(student, name);
    ASSERT_TRUE(weight.grad().defined()) << name;
    const at::Tensor gradient = weight.grad().reshape({-1}) / kWeight;
    for (const std::int64_t i : {0, 37, 150}) {
      const double difference = testing::central_difference(weight.detach(), i, 1e-5, value);
      EXPECT_NEAR(gradient[i].item<double>(), difference, 1e-6 * (1 + std::abs(difference)))
          << name << " " << i;
    }
  }
}

/// The same of the last stage, for a student of `config` whose blocks behind the first learn.
void expect_finetune_gradients(Teacher& teacher, const VitConfig& config, const at::Tensor& images,
                               const std::vector<std::string>& weights) {
  VisionTransformer student = student_of(teacher.model(), config);
  student->to(at::kDouble);
  FinetuneOptions options;
  options.first_layer = 1;
  FinetuneTask task(teacher, *student, options);
  expect_gradient_of_differences(task, *student, images, weights);
}

TEST(DistillationTasks, GradientsAreThoseOfFiniteDifferences) {
  VisionTransformer model = random_model(small_config());
  model->to(at::kDouble);
  Teacher teacher(model);
  const at::Tensor images = random_images(2).to(at::kDouble);
  for (const char* mechanism : {"hedgehog", "t2r"}) {
    SCOPED_TRACE(mechanism);
    VisionTransformer student = student_of(teacher.model(), small_config(mechanism));
    student->to(at::kDouble);
    MapsTask task(teacher, *student, {0, 2}, {.query_rows = 9, .row_chunk = 4});
    expect_gradient_of_differences(task, *student, images, {"blocks.2.attn.feature_map.q.weight"});
  }
  {
    SCOPED_TRACE("outputs");
    VisionTransformer student = student_of(teacher.model(), small_config("elu:0,hydra:2"));
    student->to(at::kDouble);
    OutputsTask task(teacher, *student, {0, 2}, 0.5);
    expect_gradient_of_differences(
        task, *student, images,
        {"blocks.0.attn.qkv.weight", "blocks.2.attn.qkv.weight", "blocks.2.attn.proj.weight"});
  }
  {
    SCOPED_TRACE("finetune");
    expect_finetune_gradients(
        teacher, small_config("elu:1,hydra:2"), images,
        {"blocks.1.attn.qkv.weight", "blocks.1.mlp.fc1.weight", "blocks.2.mlp.fc2.weight"});
  }
}

TEST(DistillationTasks, GradientsOfFeaturesAreThoseOfFiniteDifferences) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg, Pooling::map}) {
    SCOPED_TRACE(name(pooling));
    VisionTransformer model = random_model(small_tower("softmax", pooling));
    model->to(at::kDouble);
    Teacher teacher(model);
    const at::Tensor images = random_images(2).to(at::kDouble);
    expect_finetune_gradients(
        teacher, small_tower("elu:1,hydra:2", pooling), images,
        {"blocks.1.attn.qkv.weight", "blocks.2.attn.qkv.weight", "blocks.2.mlp.fc2.weight"});
  }
}

TEST(DistillationTasks, GradientsOfRmsNormsAreThoseOfFiniteDifferences) {
  const auto config = [](const char* attention) {
    VitConfig tower = small_tower(attention, Pooling::avg);
    tower.rms_norm = tower.patch_norm = tower.swiglu_mlp = true;
    tower.qkv_bias = tower.proj_bias = false;
    return tower;
  };
  VisionTransformer model = random_model(config("softmax"));
  model->to(at::kDouble);
  Teacher teacher(model);
  const at::Tensor images = random_images(2).to(at::kDouble);
  expect_finetune_gradients(
      teacher, config("elu:1,hydra:2"), images,
      {"blocks.1.attn.qkv.weight", "blocks.2.attn.proj.weight", "blocks.2.mlp.fc1.weight"});
}

TEST(OutputsTask, ComparesAllTokensOfTheLastLayerWhereFeaturesAreLearned) {
  Teacher teacher(random_model(small_config()), Target::features);
  VisionTransformer student = student_of(teacher.model(), small_config("hydra:2"));
  const at::Tensor images = random_images(2);
  const TeacherPass seen = teacher.look(images, {2});
  const AttentionOutputs outputs =
      attention_outputs(teacher, *student, 2, seen.tokens[0], seen.grid);
  EXPECT_EQ(outputs.student.size(1), 17);
  const StepLoss cost = OutputsTask(teacher, *student, {2}, 0).accumulate(batch_of(images), {});
  EXPECT_NEAR(cost.loss.item<double>(),
              relative_error(outputs.student, outputs.teacher).item<double>(), 1e-5);
}

TEST(OutputsTask, IsTheErrorBehindTheProjectionOfEachLayer) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("elu:0,hydra:2"));
  const at::Tensor images = random_images(3);
  OutputsTask task(teacher, *student, {0, 2}, 0.5);
  const StepLoss cost = task.accumulate(batch_of(images), {});
  EXPECT_FALSE(cost.loss.requires_grad());

  const std::vector<std::int64_t> layers{0, 2};
  const TeacherPass seen = teacher.look(images, layers);
  double expected = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const at::NoGradGuard no_grad;
    BlockImpl& of_teacher = teacher.model().block(layers[i]);
    BlockImpl& of_student = student->block(layers[i]);
    const auto attend = [&](BlockImpl& block) {
      return block.attention().forward(block.normalise(seen.tokens[i]), seen.grid,
                                       Kernels::automatic);
    };
    at::Tensor wanted = attend(of_teacher);
    at::Tensor found = attend(of_student);
    const double of_class =
        relative_error(found.narrow(1, 0, 1), wanted.narrow(1, 0, 1)).item<double>();
    expected +=
        layers[i] == 2 ? of_class : relative_error(found, wanted).item<double>() + 0.5 * of_class;
  }
  EXPECT_NEAR(cost.loss.item<double>(), expected, 1e-4);
  EXPECT_NEAR(cost.parts.at("error").item<double>(), expected / 2, 1e-4);
  const auto moved = moved_names(*student);
  for (const char* layer : {"blocks.0.", "blocks.2."}) {
    EXPECT_TRUE(std::ranges::any_of(moved, [&](const std::string& name) {
      return name.starts_with(std::string(layer) + "attn.");
    })) << layer;
  }
  // The norm before attention learns, too, where it is not frozen.
  for (const std::string& name : moved)
    EXPECT_TRUE(::fnmatch("blocks.[02].attn.*", name.c_str(), 0) == 0 ||
                ::fnmatch("blocks.[02].norm1.*", name.c_str(), 0) == 0)
        << name;
}

// Each layer has a forward pass under autocast and a backward pass without.
TEST(OutputsTask, ForwardPassesAreUnderAutocastAndBackwardPassesAreNot) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("elu:0,hydra:2"));
  const at::Tensor weight = parameter(*student, "blocks.0.attn.qkv.weight");
  int backward_passes = 0;
  weight.register_hook([&](const at::Tensor&) {
    ++backward_passes;
    EXPECT_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
  });
  const at::Tensor images = random_images(2);
  OutputsTask task(teacher, *student, {0, 2}, 0);
  const double in_float = task.accumulate(batch_of(images), {}).loss.item<double>();
  const double cast =
      task.accumulate(batch_of(images), {0, 1, Autocast::bfloat16}).loss.item<double>();
  EXPECT_EQ(backward_passes, 2);
  EXPECT_NE(in_float, cast);
  EXPECT_NEAR(in_float, cast, 0.05 * in_float);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
}

TEST(FinetuneTask, AddsThePenaltiesOfTheLayersItTrains) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(
      teacher.model(),
      small_config("adaptive_span", {"adaptive_span:0.penalty=7", "adaptive_span:1.penalty=0.5",
                                     "adaptive_span:2.penalty=0.25"}));
  FinetuneOptions options;
  options.first_layer = 1;
  FinetuneTask task(teacher, *student, options);
  const StepLoss cost = task.loss(batch_of(random_images(2)), 0);
  // Spans start at 1: softmax, whose logits and blocks are the teacher's.
  EXPECT_NEAR(cost.parts.at("penalty").item<double>(), 0.75, 1e-6);
  EXPECT_NEAR(cost.loss.item<double>(), 0.75, 1e-4);
  cost.loss.backward();
  for (const at::Tensor& each : parameter(*student, "blocks.2.attn.span.length").grad().unbind())
    EXPECT_NEAR(each.item<double>(), 0.25 / 3, 1e-3);
}

TEST(FinetuneTask, ComparesLogitsAndBlocks) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("elu:1,relu:2"));
  const at::Tensor images = random_images(3);
  FinetuneOptions options;
  options.answers_weight = 0.7;
  options.blocks_weight = 0.4;
  options.first_layer = 1;
  FinetuneTask task(teacher, *student, options);
  const StepLoss cost = task.loss(batch_of(images), 0);

  std::vector<at::Tensor> teachers;
  std::vector<at::Tensor> students;
  double kl = 0;
  double blocks = 0;
  {
    const at::NoGradGuard no_grad;
    ForwardOptions forward;
    forward.block_inputs = &teachers;
    const at::Tensor wanted = teacher.model().forward(images, forward);
    forward.block_inputs = &students;
    kl = logit_divergence(student->forward(images, forward), wanted).item<double>();
    const TokenGrid grid = student->grid_of(images);
    const auto output_of_last = [&](VisionTransformerImpl& model, const at::Tensor& tokens) {
      return model.block(2).forward(tokens, grid, Kernels::automatic).narrow(1, 0, 1);
    };
    blocks = relative_error(students[2], teachers[2]).item<double>() +
             relative_error(output_of_last(*student, students[2]),
                            output_of_last(teacher.model(), teachers[2]))
                 .item<double>();
  }
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), kl, 1e-4);
  EXPECT_NEAR(cost.parts.at("blocks").item<double>(), blocks / 2, 1e-4);
  EXPECT_NEAR(cost.loss.item<double>(), 0.7 * kl + 0.4 * blocks / 2, 1e-4);
}

/// Softmax as another layer: the student that is its teacher.
TEST(FinetuneTask, FeaturesOfTheTeacherItselfAreNoLoss) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg, Pooling::map}) {
    SCOPED_TRACE(name(pooling));
    Teacher teacher(random_model(small_tower("softmax", pooling)));
    VisionTransformer student = student_of(teacher.model(), small_tower("softmax", pooling));
    const StepLoss cost = FinetuneTask(teacher, *student, {}).loss(batch_of(random_images(2)), 0);
    EXPECT_NEAR(cost.loss.item<double>(), 0, 1e-10);
    for (const char* part : {"pooled", "gram", "blocks"})
      EXPECT_NEAR(cost.parts.at(part).item<double>(), 0, 1e-10) << part;
    EXPECT_FALSE(cost.parts.contains("kl"));
  }
}

TEST(FinetuneTask, ComparesFeaturesAndTheirGradientReachesNoClassifier) {
  Teacher teacher(random_model(small_config()), Target::features);
  VisionTransformer student = student_of(teacher.model(), small_config("elu:1,relu:2"));
  const at::Tensor images = random_images(3);
  FinetuneOptions options;
  options.answers_weight = 0.7;
  options.blocks_weight = 0;
  options.first_layer = 1;
  const StepLoss cost = FinetuneTask(teacher, *student, options).loss(batch_of(images), 0);
  double pooled = 0;
  double gram = 0;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor wanted = teacher.model().forward_features(images);
    const at::Tensor found = student->forward_features(images);
    pooled = cosine_distance(found.select(1, 0), wanted.select(1, 0)).item<double>();
    gram = gram_error(found.slice(1, 1), wanted.slice(1, 1)).item<double>();
  }
  EXPECT_GT(pooled, 1e-4);
  EXPECT_GT(gram, 1e-6);
  EXPECT_NEAR(cost.parts.at("pooled").item<double>(), pooled, 1e-5);
  EXPECT_NEAR(cost.parts.at("gram").item<double>(), gram, 1e-5);
  EXPECT_NEAR(cost.loss.item<double>(), 0.7 * (pooled + gram), 1e-5);
  cost.loss.backward();
  const std::vector<std::string> moved = moved_names(*student);
  const auto is_moved = [&](const std::string& name) {
    return std::ranges::count(moved, name) == 1;
  };
  for (const char* name : {"blocks.1.attn.qkv.weight", "blocks.2.mlp.fc2.weight", "norm.weight"})
    EXPECT_TRUE(is_moved(name)) << name;
  for (const std::string& name : moved)
    EXPECT_TRUE(name.starts_with("blocks.1.") || name.starts_with("blocks.2.") ||
                name.starts_with("norm."))
        << name;
  for (const at::Tensor& parameter : teacher.model().parameters())
    EXPECT_FALSE(parameter.grad().defined());
}

TEST(FinetuneTask, AsksTheTeacherForTheBlocksThatItCompares) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("elu:1,relu:2"));
  const at::Tensor images = random_images(3);
  FinetuneOptions options;
  options.first_layer = 1;
  options.blocks_weight = 0.25;
  const StepLoss both = FinetuneTask(teacher, *student, options).loss(batch_of(images), 0);
  options.blocks_weight = 0;
  const StepLoss logits = FinetuneTask(teacher, *student, options).loss(batch_of(images), 0);
  EXPECT_FALSE(logits.parts.contains("blocks"));
  EXPECT_TRUE(at::equal(logits.parts.at("kl"), both.parts.at("kl")));
}

// The last block's other tokens are not computed, which changes neither answers nor gradients.
TEST(SizesTask, IsTheDivergenceOfTheModelsAnswers) {
  Teacher teacher(random_model(small_config()));
  for (const char* attention : {"softmax", "hydra:2", "elu", "nystrom:2"}) {
    SCOPED_TRACE(attention);
    VisionTransformer student = student_of(teacher.model(), small_config(attention));
    Batch batch = batch_of(random_images(4));
    batch.views = at::randn({2, 3, 40, 48});
    const auto gradients_of = [&](const at::Tensor& loss) {
      loss.backward();
      std::vector<at::Tensor> all;
      for (const at::Tensor& weight : student->parameters()) {
        all.push_back(weight.grad().defined() ? weight.grad() : at::zeros_like(weight));
        weight.mutable_grad().reset();
      }
      return all;
    };
    const at::Tensor wanted = teacher.answers(batch.images).softmax(-1).view({2, 2, -1}).mean(1);
    const at::Tensor expected = divergence_from(student->forward(batch.views), wanted);
    SizesTask task(teacher, *student);
    const at::Tensor found = task.loss(batch, 0).loss;
    EXPECT_NEAR(found.item<double>(), expected.item<double>(), 1e-5);
    const std::vector<at::Tensor> of_found = gradients_of(found);
    const std::vector<at::Tensor> of_expected = gradients_of(expected);
    for (std::size_t i = 0; i < of_found.size(); ++i)
      EXPECT_TRUE(at::allclose(of_found[i], of_expected[i], 1e-3, 1e-5)) << i;
  }
}

TEST(SizesTask, LearnsThePooledVectorsOfThePartsAndThePatchesThatAPatchCovers) {
  Teacher teacher(random_model(small_tower()));
  VisionTransformer student = student_of(teacher.model(), small_tower("window"));
  Batch batch = batch_of(random_images(4));
  batch.views = at::randn({4, 3, 64, 96});
  SizesTask task(teacher, *student);
  const at::Tensor taught = teacher.answers(batch.images);
  const at::Tensor tokens = student->forward_features(batch.views);
  const at::Tensor covered =
      tokens.slice(1, 1).view({4, 4, 2, 4, 3, 24}).mean({2, 4}).flatten(1, 2);
  const double pooled = cosine_distance(tokens.select(1, 0), taught.select(1, 0)).item<double>();
  const double gram = gram_error(covered, taught.slice(1, 1)).item<double>();
  const double patches = cosine_distance(covered, taught.slice(1, 1)).item<double>();
  const StepLoss cost = task.loss(batch, 0);
  EXPECT_NEAR(cost.parts.at("pooled").item<double>(), pooled, 1e-5);
  EXPECT_NEAR(cost.parts.at("gram").item<double>(), gram, 1e-5);
  EXPECT_NEAR(cost.parts.at("patches").item<double>(), patches, 1e-5);
  EXPECT_NEAR(cost.loss.item<double>(), pooled + gram + patches, 1e-5);

  // Two pictures in each of two scenes: their mean direction.
  batch.views = at::randn({2, 3, 64, 64});
  batch.is_scene = true;
  const at::Tensor wanted = unit_vectors(taught.select(1, 0)).view({2, 2, 24}).mean(1);
  const StepLoss scenes = task.loss(batch, 0);
  EXPECT_NEAR(
      scenes.loss.item<double>(),
      cosine_distance(student->forward_features(batch.views).select(1, 0), wanted).item<double>(),
      1e-5);
  EXPECT_FALSE(scenes.parts.contains("gram"));
}

TEST(FinetuneTask, LearnsTheTablesOfLayersThatItTrains) {
  Teacher teacher(random_model(small_config()));
  VitConfig config = small_config("elu:1");
  config.pos_embed = PosEmbed::layers;
  VisionTransformer student = student_of(teacher.model(), config);
  EXPECT_EQ(converted_layers(teacher.config(), *student).all, (std::vector<std::int64_t>{1}));
  {
    const at::NoGradGuard no_grad;
    parameter(*student, "blocks.1.pos_embed").normal_();
  }
  const at::Tensor images = random_images(3);
  FinetuneOptions options;
  options.first_layer = 1;
  FinetuneTask task(teacher, *student, options);
  const StepLoss cost = task.loss(batch_of(images), 0);
  const double kl =
      logit_divergence(student->forward(images), teacher.answers(images)).item<double>();
  EXPECT_GT(kl, 1e-4);
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), kl, 1e-4);
  cost.loss.backward();
  for (const char* name : {"blocks.1.pos_embed", "blocks.2.pos_embed"})
    EXPECT_GT(parameter(*student, name).grad().abs().max().item<double>(), 0) << name;
}

TEST(ExitsTask, TeachesTheExitsAlone) {
  VisionTransformer model = random_model(small_config());
  VitConfig config = small_config();
  config.exits = {0, 1};
  VisionTransformer student = student_of(*model, config);
  start_from_trunk(student->class_branch(), WeightTable(model));
  Teacher teacher(model);
  ExitsTask task(teacher, *student);
  const at::Tensor images = random_images(4);
  const StepLoss cost = task.accumulate(batch_of(images), {});
  EXPECT_NEAR(cost.loss.item<double>(),
              cost.parts.at("kl").item<double>() + cost.parts.at("stop").item<double>(), 1e-6);
  const std::vector<std::string> moved = moved_names(*student);
  for (const char* name : {"exits.blocks.1.attn.qkv.weight", "exits.blocks.2.mlp.fc2.bias",
                           "exits.norm.weight", "exits.head.weight", "exits.stop.weight"})
    EXPECT_NE(std::ranges::find(moved, name), moved.end()) << name;
  for (const std::string& name : moved) EXPECT_TRUE(name.starts_with("exits.")) << name;
  // Before the last block the branch is the trunk; one block earlier the other tokens stand still.
  const ExitsPass pass = look_at_exits(teacher, *student, images);
  EXPECT_LT(logit_divergence(pass.exits[1].logits, pass.logits).item<double>(), 1e-6);
  EXPECT_GT(logit_divergence(pass.exits[0].logits, pass.logits).item<double>(), 1e-4);
}

TEST(RowCrossEntropy, IsTheFormula) {
  // (B, H, n, N) = (1, 1, 2, 3)
  const at::Tensor p = at::tensor({0.5, 0.25, 0.25, 0.0, 0.1, 0.9}, at::kDouble).view({1, 1, 2, 3});
  const at::Tensor a = at::tensor({0.2, 0.3, 0.5, 0.4, 0.2, 0.4}, at::kDouble).view({1, 1, 2, 3});
  const double first = -(0.5 * std::log(0.2) + 0.25 * std::log(0.3) + 0.25 * std::log(0.5));
  const double second = -(0.1 * std::log(0.2) + 0.9 * std::log(0.4));
  EXPECT_NEAR(row_cross_entropy(a, p).item<double>(), (first + second) / 2, 1e-12);
  const double entropy = -(0.5 * std::log(0.5) + 0.5 * std::log(0.25));
  const double other = -(0.1 * std::log(0.1) + 0.9 * std::log(0.9));
  EXPECT_NEAR(row_entropy(p).item<double>(), (entropy + other) / 2, 1e-12);
}

TEST(RowCrossEntropy, GradientOfUnnormalisedWeightsIsTheDifferenceOverTheWeight) {
  at::manual_seed(1);
  const at::Tensor w = (at::rand({2, 3, 4, 5}, at::kDouble) + 0.1).requires_grad_();
  const at::Tensor p = at::randn({2, 3, 4, 5}, at::kDouble).softmax(-1);
  const at::Tensor a = w / w.sum(-1, true);
  const at::Tensor gradient = torch::autograd::grad({row_cross_entropy(a, p)}, {w})[0];
  const at::Tensor expected = (a - p) / w / (2 * 3 * 4);
  EXPECT_TRUE(at::allclose(gradient, expected, 1e-10, 1e-14));
}

TEST(RowCrossEntropy, IsSmallestAtTheTeachersRowsAndFiniteAtZero) {
  at::manual_seed(2);
  const at::Tensor p = at::randn({1, 2, 3, 6}, at::kDouble).softmax(-1);
  const at::Tensor other = at::randn({1, 2, 3, 6}, at::kDouble).softmax(-1);
  EXPECT_NEAR(row_cross_entropy(p, p).item<double>(), row_entropy(p).item<double>(), 1e-12);
  EXPECT_GT(row_cross_entropy(other, p).item<double>(), row_entropy(p).item<double>() + 0.1);
  EXPECT_TRUE(std::isfinite(row_cross_entropy(at::zeros_like(p), p).item<double>()));
}

TEST(RelativeError, IsTheMeanOverTheImages) {
  const at::Tensor teacher = at::tensor({3.0, 4.0, 1.0, 0.0}).view({2, 1, 2});
  const at::Tensor student = at::tensor({3.0, 5.0, 0.0, 2.0}).view({2, 1, 2});
  EXPECT_NEAR(relative_error(student, teacher).item<double>(), (1.0 / 25 + 5.0) / 2, 1e-6);
  // Half types are compared in float32.
  EXPECT_EQ(relative_error(student.to(at::kBFloat16), teacher.to(at::kBFloat16)).scalar_type(),
            at::kFloat);
}

TEST(TokenError, AddsTheClassTokensShare) {
  at::manual_seed(3);
  const at::Tensor teacher = at::randn({2, 5, 4});
  const at::Tensor student = at::randn({2, 5, 4});
  const double all = relative_error(student, teacher).item<double>();
  const double of_class =
      relative_error(student.narrow(1, 0, 1), teacher.narrow(1, 0, 1)).item<double>();
  EXPECT_NEAR(token_error(student, teacher, 1, 0.5).item<double>(), all + 0.5 * of_class, 1e-6);
  EXPECT_NEAR(token_error(student, teacher, 0, 0.5).item<double>(), all, 1e-6);
  EXPECT_NEAR(token_error(student, teacher, 5, 0.5).item<double>(), all, 1e-6);
}

TEST(CosineDistance, IsOneMinusTheCosineAndZeroForTheSame) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({2, 5, 7});
  const at::Tensor t = at::randn({2, 5, 7});
  const at::Tensor cosines = (x * t).sum(-1) / (x.norm(2, -1) * t.norm(2, -1));
  EXPECT_NEAR(cosine_distance(x, t).item<double>(), 1 - cosines.mean().item<double>(), 1e-6);
  EXPECT_NEAR(cosine_distance(x, 3 * x).item<double>(), 0, 1e-12);
  EXPECT_EQ(cosine_distance(x, x).item<double>(), 0);
  EXPECT_TRUE(at::isfinite(cosine_distance(at::zeros({1, 3}), at::ones({1, 3}))).item<bool>());
}

TEST(GramError, ComparesSimilaritiesOfPatchesAndNotThePatches) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({2, 5, 7});
  const at::Tensor t = at::randn({2, 5, 7});
  double expected = 0;
  for (std::int64_t image = 0; image < 2; ++image)
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        const auto cosine = [&](const at::Tensor& of) {
          const at::Tensor a = of[image][i];
          const at::Tensor b = of[image][j];
          return (a.dot(b) / (a.norm() * b.norm())).item<double>();
        };
        const double difference = cosine(x) - cosine(t);
        expected += difference * difference / 50;
      }
  EXPECT_NEAR(gram_error(x, t).item<double>(), expected, 1e-6);
  EXPECT_EQ(gram_error(x, x).item<double>(), 0);
  // A rotation of all patches leaves their similarities.
  EXPECT_NEAR(gram_error(x.flip({2}), x).item<double>(), 0, 1e-12);
  const AutocastScope scope(Autocast::bfloat16, c10::kCPU);
  EXPECT_NEAR(gram_error(x, t).item<double>(), expected, 1e-6) << "not rounded by autocast";
}

TEST(SampleQueries, HoldsThePrefixAndDistinctPatches) {
  const TokenGrid grid{2, 3, 4};
  const at::Tensor rows = sample_queries(grid, 7, RandomStream{4});
  ASSERT_EQ(rows.numel(), 7);
  EXPECT_EQ(rows[0].item<std::int64_t>(), 0);
  EXPECT_EQ(rows[1].item<std::int64_t>(), 1);
  for (std::int64_t i = 1; i < 7; ++i)
    EXPECT_GT(rows[i].item<std::int64_t>(), rows[i - 1].item<std::int64_t>());
  EXPECT_LT(rows[6].item<std::int64_t>(), grid.num_tokens());
  EXPECT_TRUE(at::equal(rows, sample_queries(grid, 7, RandomStream{4})));
  EXPECT_FALSE(at::equal(rows, sample_queries(grid, 7, RandomStream{5})));
  EXPECT_TRUE(at::equal(sample_queries(grid, 100, RandomStream{4}), at::arange(14, at::kLong)));
  // Every patch is drawn equally often.
  at::Tensor times = at::zeros({grid.num_tokens()}, at::kLong);
  for (std::uint64_t i = 0; i < 1200; ++i)
    times.index_add_(0, sample_queries(grid, 8, RandomStream{i}), at::ones({8}, at::kLong));
  for (std::int64_t token = 2; token < grid.num_tokens(); ++token)
    EXPECT_NEAR(times[token].item<double>(), 600, 90) << token;
}

}  // namespace
}  // namespace hydrascope::model::training
