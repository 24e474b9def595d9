#include "kernels/error.h"
#include "model/training/autocast.h"
#include "model/training/distillation/finetune_task.h"
#include "model/training/distillation/layers_task.h"
#include "model/training/distillation/maps_task.h"
#include "model/training/distillation/matching_losses.h"
#include "model/training/distillation/outputs_task.h"
#include "model/training/losses.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
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

TEST(ImmediateGradient, EqualsTheGradientOfTheSum) {
  at::manual_seed(1);
  const at::Tensor a = at::randn({3}, at::kDouble).requires_grad_();
  const at::Tensor b = at::randn({3}, at::kDouble).requires_grad_();
  const at::Tensor unused = at::randn({3}, at::kDouble).requires_grad_();
  std::vector<std::function<at::Tensor()>> parts{[&] { return (a * b).sum(); },
                                                 [&] { return (a * a).sum() * 0.5; }};
  std::size_t i = 0;
  const at::Tensor sum = sum_differentiated_at_once({{"a", a}, {"b", b}, {"unused", unused}}, [&] {
    return i < parts.size() ? parts[i++]() : at::Tensor();
  });
  EXPECT_NEAR(sum.item<double>(), ((a * b).sum() + (a * a).sum() * 0.5).item<double>(), 1e-12);
  (2 * sum).backward();
  EXPECT_TRUE(at::allclose(a.grad(), 2 * (a + b).detach(), 1e-12));
  EXPECT_TRUE(at::allclose(b.grad(), 2 * a.detach(), 1e-12));
  EXPECT_FALSE(unused.grad().defined());
}

// As the backward pass of a trainer is.
TEST(ImmediateGradient, IsOutsideOfAutocast) {
  const at::Tensor a = at::ones({3}).requires_grad_(true);
  bool is_cast = true;
  bool is_done = false;
  const AutocastScope scope(Autocast::bfloat16, c10::kCPU);
  sum_differentiated_at_once({{"a", a}}, [&]() -> at::Tensor {
    if (std::exchange(is_done, true)) return {};
    const at::Tensor doubled = 2 * a;
    doubled.register_hook(
        [&](const at::Tensor&) { is_cast = at::autocast::is_autocast_enabled(c10::kCPU); });
    return doubled.sum();
  });
  EXPECT_FALSE(is_cast);
}

TEST(Teacher, SeesWhatTheModelComputes) {
  for (const Pooling pooling : {Pooling::token, Pooling::avg}) {
    VitConfig config = small_config();
    config.global_pool = pooling;
    config.distilled = pooling == Pooling::token;
    VisionTransformer model = random_model(config);
    const at::Tensor images = random_images(2);
    std::vector<at::Tensor> inputs;
    ForwardOptions options;
    options.block_inputs = &inputs;
    const at::NoGradGuard no_grad;
    const at::Tensor logits = model->forward(images, options);
    Teacher teacher(model);
    const TeacherPass seen = teacher.look(images);
    ASSERT_EQ(seen.tokens.size(), 4);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(seen.tokens[i], inputs[i])) << i;
    EXPECT_EQ(seen.tokens[3].size(1), pooling == Pooling::token ? 2 : 17);
    EXPECT_TRUE(at::allclose(seen.logits, logits, 1e-5, 1e-5));
    EXPECT_FALSE(seen.logits.requires_grad());

    std::vector<AttentionTrace> traces;
    for (std::int64_t layer = 0; layer < 3; ++layer)
      traces.push_back(trace_attention(*model, layer, inputs[static_cast<std::size_t>(layer)],
                                       model->grid_of(images)));
    const TeacherAttention attention = teacher.look_at_attention(images, {0, 2});
    ASSERT_EQ(attention.layers.size(), 2);
    for (const TeacherAttention::Layer& layer : attention.layers) {
      const auto index = static_cast<std::size_t>(layer.index);
      EXPECT_TRUE(at::allclose(layer.tokens, inputs[index], 1e-5, 1e-5));
      EXPECT_TRUE(at::allclose(layer.trace.output, traces[index].output, 1e-5, 1e-5));
    }

    teacher.compile(at::kFloat, 1);
    const TeacherPass compiled = teacher.look(images);
    ASSERT_EQ(compiled.tokens.size(), 4);
    EXPECT_FALSE(compiled.tokens[0].defined());
    for (std::size_t i = 1; i < 4; ++i)
      EXPECT_TRUE(at::allclose(compiled.tokens[i], seen.tokens[i], 1e-4, 1e-4)) << i;
    EXPECT_TRUE(at::allclose(compiled.logits, seen.logits, 1e-4, 1e-4));
    for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{1, 2}, {0, 2}}) {
      const TeacherAttention again = teacher.look_at_attention(images, layers);
      ASSERT_EQ(again.layers.size(), 2);
      for (const TeacherAttention::Layer& layer : again.layers) {
        const auto index = static_cast<std::size_t>(layer.index);
        EXPECT_TRUE(at::allclose(layer.tokens, inputs[index], 1e-4, 1e-4));
        EXPECT_TRUE(at::allclose(layer.trace.output, traces[index].output, 1e-4, 1e-4));
      }
    }
  }
}

TEST(Teacher, KeepsItsWeightsWhenItIsCompiledInAnotherType) {
  VisionTransformer model = random_model(small_config("performer:0,softmax:1-2"));
  Teacher teacher(model);
  const at::Tensor images = random_images(2);
  const TeacherPass seen = teacher.look(images);
  teacher.compile(at::kBFloat16, 0);
  const TeacherPass compiled = teacher.look(images);
  EXPECT_FALSE(at::equal(compiled.tokens[2], seen.tokens[2]));
  EXPECT_LT((compiled.logits - seen.logits).norm().item<double>(),
            0.05 * seen.logits.norm().item<double>());
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.value().scalar_type(), at::kFloat) << item.key();
}

TEST(MapsTask, IsTheCrossEntropyOfTheRowsOnTheTeachersQueriesAndKeys) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student =
      student_of(teacher.model(), small_config("hedgehog", {"hedgehog.variant=softmax2"}));
  const at::Tensor images = random_images(3);
  const TeacherAttention seen = teacher.look_at_attention(images, {0, 1, 2});

  // All rows: nothing is drawn. The map of the equation, from its parameters.
  double expected = 0;
  double entropy = 0;
  for (const TeacherAttention::Layer& layer : seen.layers) {
    const at::NoGradGuard no_grad;
    const std::string name = "blocks." + std::to_string(layer.index) + ".attn.feature_map.";
    const auto phi = [&](const at::Tensor& x, const std::string& side) {
      const at::Tensor u = x.matmul(parameter(*student, name + side + ".weight")) +
                           parameter(*student, name + side + ".bias").unsqueeze(1);
      return at::cat({u.softmax(-1), (-u).softmax(-1)}, -1);
    };
    const at::Tensor scores = layer.trace.q.matmul(layer.trace.k.transpose(-2, -1));
    const at::Tensor p = (scores / std::sqrt(8.0)).softmax(-1);
    const at::Tensor w = phi(layer.trace.q, "q").matmul(phi(layer.trace.k, "k").transpose(-2, -1));
    const at::Tensor a = w / w.sum(-1, true);
    expected -= (p * a.log()).sum(-1).mean().item<double>() / 3;
    entropy -= (p * p.log()).sum(-1).mean().item<double>() / 3;
  }
  MapsTask task(teacher, *student, {0, 1, 2}, {.query_rows = 17, .row_chunk = 5});
  const StepLoss cost = task.loss(batch_of(images), 0);
  EXPECT_NEAR(cost.loss.item<double>(), expected, 1e-4);
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), expected - entropy, 1e-4);

  // Chunks change nothing.
  cost.loss.backward();
  const at::Tensor chunked = parameter(*student, "blocks.1.attn.feature_map.k.weight").grad();
  const at::Tensor gradient = chunked.clone();
  chunked.zero_();
  MapsTask whole(teacher, *student, {0, 1, 2}, {.query_rows = 17, .row_chunk = 64});
  whole.loss(batch_of(images), 0).loss.backward();
  EXPECT_TRUE(at::allclose(gradient, chunked, 1e-4, 1e-7));

  // Only maps have a gradient.
  for (const std::string& moved : moved_names(*student))
    EXPECT_NE(moved.find("feature_map"), std::string::npos) << moved;
  EXPECT_EQ(task.parameters().size(), 12);
}

/// The gradients of `task`, in double, at some elements of `weights`, against central differences.
void expect_gradient_of_differences(TrainingTask& task, VisionTransformerImpl& student,
                                    const at::Tensor& images,
                                    const std::vector<std::string>& weights) {
  const auto value = [&] { return task.loss(batch_of(images), 0).loss; };
  value().backward();
  const at::NoGradGuard no_grad;
  for (const std::string& name : weights) {
    const at::Tensor weight = parameter(student, name);
    ASSERT_TRUE(weight.grad().defined()) << name;
    for (const std::int64_t i : {0, 37, 150}) {
      constexpr double kStep = 1e-5;
      const at::Tensor element = weight.view(-1)[i];
      const double old = element.item<double>();
      const auto value_at = [&](double shifted) {
        element.fill_(shifted);
        const at::AutoGradMode grad(true);  // tasks may differentiate on the way
        return value().item<double>();
      };
      const double difference = (value_at(old + kStep) - value_at(old - kStep)) / (2 * kStep);
      element.fill_(old);
      EXPECT_NEAR(weight.grad().view(-1)[i].item<double>(), difference,
                  1e-6 * (1 + std::abs(difference)))
          << name << " " << i;
    }
  }
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
    VisionTransformer student = student_of(teacher.model(), small_config("elu:1,hydra:2"));
    student->to(at::kDouble);
    FinetuneOptions options;
    options.cls_weight = 0.5;
    options.first_layer = 1;
    FinetuneTask task(teacher, *student, options);
    expect_gradient_of_differences(
        task, *student, images,
        {"blocks.1.attn.qkv.weight", "blocks.1.mlp.fc1.weight", "blocks.2.mlp.fc2.weight"});
  }
}

TEST(OutputsTask, IsTheErrorBehindTheProjectionOfEachLayer) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("elu:0,hydra:2"));
  const at::Tensor images = random_images(3);
  OutputsTask task(teacher, *student, {0, 2}, 0.5);
  const StepLoss cost = task.loss(batch_of(images), 0);

  const TeacherAttention seen = teacher.look_at_attention(images, {0, 2});
  double expected = 0;
  for (const TeacherAttention::Layer& layer : seen.layers) {
    const at::NoGradGuard no_grad;
    BlockImpl& of_teacher = teacher.model().block(layer.index);
    BlockImpl& of_student = student->block(layer.index);
    const auto attend = [&](BlockImpl& block) {
      return block.attention().forward(block.normalise(layer.tokens), seen.grid,
                                       Kernels::automatic);
    };
    at::Tensor wanted = attend(of_teacher);
    at::Tensor found = attend(of_student);
    const double of_class =
        relative_error(found.narrow(1, 0, 1), wanted.narrow(1, 0, 1)).item<double>();
    expected +=
        layer.index == 2 ? of_class : relative_error(found, wanted).item<double>() + 0.5 * of_class;
  }
  EXPECT_NEAR(cost.loss.item<double>(), expected, 1e-4);
  EXPECT_NEAR(cost.parts.at("error").item<double>(), expected / 2, 1e-4);
  cost.loss.backward();
  const auto moved = moved_names(*student);
  for (const char* layer : {"blocks.0.attn.", "blocks.2.attn."}) {
    EXPECT_TRUE(std::ranges::any_of(moved, [&](const std::string& name) {
      return name.starts_with(layer);
    })) << layer;
  }
  for (const std::string& name : moved)
    EXPECT_TRUE(name.starts_with("blocks.0.attn.") || name.starts_with("blocks.2.attn.")) << name;
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
  options.temperature = 2;
  options.logits_weight = 0.7;
  options.blocks_weight = 0.4;
  options.cls_weight = 0.5;
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
    kl = logit_divergence(student->forward(images, forward), wanted, 2).item<double>();
    const TokenGrid grid = student->grid_of(images);
    const auto output_of_last = [&](VisionTransformerImpl& model, const at::Tensor& tokens) {
      return model.block(2).forward(tokens, grid, Kernels::automatic).narrow(1, 0, 1);
    };
    blocks = token_error(students[2], teachers[2], 1, 0.5).item<double>() +
             relative_error(output_of_last(*student, students[2]),
                            output_of_last(teacher.model(), teachers[2]))
                 .item<double>();
  }
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), kl, 1e-4);
  EXPECT_NEAR(cost.parts.at("blocks").item<double>(), blocks / 2, 1e-4);
  EXPECT_NEAR(cost.loss.item<double>(), 0.7 * kl + 0.4 * blocks / 2, 1e-4);
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
      logit_divergence(student->forward(images), teacher.logits(images), options.temperature)
          .item<double>();
  EXPECT_GT(kl, 1e-4);
  EXPECT_NEAR(cost.parts.at("kl").item<double>(), kl, 1e-4);
  cost.loss.backward();
  for (const char* name : {"blocks.1.pos_embed", "blocks.2.pos_embed"})
    EXPECT_GT(parameter(*student, name).grad().abs().max().item<double>(), 0) << name;
}

}  // namespace
}  // namespace hydrascope::model::training
