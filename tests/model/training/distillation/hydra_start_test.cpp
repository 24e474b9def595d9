#include "model/training/distillation/hydra_start.h"

#include "model/training/distillation/matching_losses.h"
#include "model/training/distillation/outputs_task.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

const std::unique_ptr<ProcessGroup> alone = std::make_unique<ProcessGroup>();

using Batches = std::function<std::optional<at::Tensor>(std::int64_t)>;

Batches two_batches() {
  return [](std::int64_t index) -> std::optional<at::Tensor> {
    if (index == 2) return std::nullopt;
    return random_images(6, 10 + static_cast<std::uint64_t>(index));
  };
}

at::Tensor all_images() { return at::cat({random_images(6, 10), random_images(6, 11)}); }

TEST(HydraStart, QueriesAndKeysGetOffsetAndDeviation) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student =
      student_of(teacher.model(), small_config("hydra:1-2", {"hydra.feature_scale=on"}));
  const at::Tensor before = parameter(*student, "blocks.1.attn.qkv.weight").clone();
  start_hydra_layers(teacher, *student, {1, 2}, two_batches(), *alone);

  const TeacherPass seen = teacher.look(all_images(), {1, 2});
  for (const std::int64_t layer : {1, 2}) {
    const at::NoGradGuard no_grad;
    const at::Tensor& input = seen.tokens[static_cast<std::size_t>(layer) - 1];
    const AttentionTrace trace = trace_attention(*student, layer, input, seen.grid);
    for (const at::Tensor& x : {trace.q, trace.k}) {
      const at::Tensor tokens = merge_heads(x).flatten(0, 1);
      EXPECT_TRUE(at::allclose(tokens.mean(0), at::ones({24}), 0, 1e-4));
      EXPECT_TRUE(at::allclose(tokens.std(0, /*unbiased=*/false), at::full({24}, 0.3), 0, 1e-4));
    }
    EXPECT_TRUE(at::equal(trace.v, trace_attention(teacher.model(), layer, input, seen.grid).v));
  }
  const at::Tensor after = parameter(*student, "blocks.1.attn.qkv.weight");
  EXPECT_TRUE(at::equal(after.narrow(0, 48, 24), before.narrow(0, 48, 24)));  // v
}

TEST(HydraStart, FeatureScaleIsTheLeastSquaresFit) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student =
      student_of(teacher.model(), small_config("hydra:1-2", {"hydra.feature_scale=on"}));
  start_hydra_layers(teacher, *student, {1, 2}, two_batches(), *alone);

  const TeacherPass seen = teacher.look(all_images(), {1, 2});
  const at::NoGradGuard no_grad;
  for (const std::int64_t layer : {1, 2}) {
    const std::int64_t count = layer == 2 ? 1 : 17;  // the class token decides at last
    at::Tensor scale =
        parameter(*student, "blocks." + std::to_string(layer) + ".attn.feature_scale");
    const at::Tensor fitted = scale.clone();
    scale.fill_(1);
    const auto output = [&](VisionTransformerImpl& model) {
      const at::Tensor& input = seen.tokens[static_cast<std::size_t>(layer) - 1];
      return trace_attention(model, layer, input, seen.grid)
          .output.narrow(1, 0, count)
          .flatten(0, 1);
    };
    const at::Tensor y = output(*student);
    const at::Tensor wanted = output(teacher.model());
    for (std::int64_t f = 0; f < 24; ++f) {
      const at::Tensor solution = std::get<0>(
          at::linalg_lstsq(y.select(1, f).unsqueeze(1), wanted.select(1, f).unsqueeze(1)));
      EXPECT_NEAR(fitted[f].item<double>(), solution.item<double>(),
                  1e-4 * (1 + std::abs(solution.item<double>())));
    }
    scale.copy_(fitted);
  }
}

/// Relative error of a layer's attention output, projections included.
double error_of(Teacher& teacher, VisionTransformerImpl& student) {
  const at::NoGradGuard no_grad;
  const TeacherPass seen = teacher.look(all_images(), {1});
  const AttentionOutputs outputs =
      attention_outputs(teacher, student, 1, seen.tokens.front(), seen.grid);
  return relative_error(outputs.student, outputs.teacher).item<double>();
}

TEST(HydraStart, BringsTheLayerNearTheTeacher) {
  Teacher teacher(random_model(small_config()));
  for (const char* scale : {"on", "off"}) {
    VisionTransformer student = student_of(
        teacher.model(), small_config("hydra:1", {std::string("hydra.feature_scale=") + scale}));
    const double before = error_of(teacher, *student);
    start_hydra_layers(teacher, *student, {1}, two_batches(), *alone);
    const double after = error_of(teacher, *student);
    EXPECT_LT(after, 0.8) << scale;
    EXPECT_LT(after, 0.5 * before) << scale;
  }
}

TEST(HydraStart, WithoutTheParameterTheScaleGoesIntoTheProjection) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer with =
      student_of(teacher.model(), small_config("hydra:1", {"hydra.feature_scale=on"}));
  VisionTransformer without = student_of(teacher.model(), small_config("hydra:1"));
  start_hydra_layers(teacher, *with, {1}, two_batches(), *alone);
  start_hydra_layers(teacher, *without, {1}, two_batches(), *alone);
  EXPECT_NEAR(error_of(teacher, *with), error_of(teacher, *without), 1e-5);
}

// Windows read the queries and keys as the teacher does, so these stay; Hydra's scale fits what they
// leave. Windows of 7x7 cover the small models' grid and leave nothing.
TEST(HydraStart, LayersWithWindowsKeepTheirQueriesAndKeys) {
  Teacher teacher(random_model(small_config()));
  for (const bool scaled : {false, true}) {
    VisionTransformer student = student_of(
        teacher.model(),
        small_config("hydra:1", {"hydra.local=window7",
                                 std::string("hydra.feature_scale=") + (scaled ? "on" : "off")}));
    const at::Tensor before = parameter(*student, "blocks.1.attn.qkv.weight").clone();
    start_hydra_layers(teacher, *student, {1}, two_batches(), *alone);
    EXPECT_TRUE(at::equal(parameter(*student, "blocks.1.attn.qkv.weight"), before));
    if (scaled) {
      EXPECT_LT(error_of(teacher, *student), 1e-5);
    }
  }
}

TEST(HydraStart, ModelsWithoutBiasesKeepTheirQueriesAndKeys) {
  VitConfig config = small_config();
  config.qkv_bias = false;
  Teacher teacher(random_model(config));
  apply_attention_spec("hydra:1", config.attention);
  VisionTransformer student = student_of(teacher.model(), config);
  const at::Tensor before = parameter(*student, "blocks.1.attn.qkv.weight").clone();
  start_hydra_layers(teacher, *student, {1}, two_batches(), *alone);
  EXPECT_TRUE(at::equal(parameter(*student, "blocks.1.attn.qkv.weight"), before));
}

TEST(HydraStart, NeedsImages) {
  Teacher teacher(random_model(small_config()));
  VisionTransformer student = student_of(teacher.model(), small_config("hydra:1"));
  EXPECT_ERROR(start_hydra_layers(
                   teacher, *student, {1}, [](std::int64_t) { return std::nullopt; }, *alone),
               empty, "no images");
}

}  // namespace
}  // namespace hydrascope::model::training
