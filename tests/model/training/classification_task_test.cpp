#include "model/training/classification_task.h"

#include "model/training/losses.h"
#include "model/training/mixup.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace classification_task_test {

/// The tolerance of float32 sums against double ones, for losses of a few units.
constexpr double kTolerance = 2e-5;

Batch some_batch() { return {random_images(4), at::tensor({0, 3, 1, 4}, at::kLong), 0, 0}; }

VisionTransformer some_model(bool distilled = false) {
  VitConfig config = small_config();
  config.distilled = distilled;
  return random_model(config);
}

HeadLogits heads_of(VisionTransformer& model, const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  return model->forward_heads(model->forward_features(images));
}

ClassificationOptions without_smoothing() {
  ClassificationOptions options;
  options.mixup.label_smoothing = 0;
  return options;
}

double loss_of(ClassificationTask& task, const Batch& batch) {
  return task.loss(batch, 0).loss.item<double>();
}

/// log softmax(x / t)[row][column], by loops in double.
double log_share(const at::Tensor& x, std::int64_t row, std::int64_t column, double t = 1) {
  double sum = 0;
  for (std::int64_t c = 0; c < x.size(1); ++c) sum += std::exp(x[row][c].item<double>() / t);
  return x[row][column].item<double>() / t - std::log(sum);
}

/// Mean over the rows of -sum_c t_c log p_c, t being the label, of which `smoothing` is spread over
/// all classes.
double label_loss(const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0) {
  const auto rows = static_cast<double>(logits.size(0));
  const auto columns = static_cast<double>(logits.size(1));
  double sum = 0;
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const auto label = labels[row].item<std::int64_t>();
    for (std::int64_t column = 0; column < logits.size(1); ++column) {
      const double target = (column == label ? 1 - smoothing : 0) + smoothing / columns;
      sum -= target * log_share(logits, row, column);
    }
  }
  return sum / rows;
}

/// Mean over the rows of KL(softmax(teacher / t) | softmax(student / t)).
double divergence(const at::Tensor& student, const at::Tensor& teacher, double t) {
  double sum = 0;
  for (std::int64_t row = 0; row < student.size(0); ++row) {
    for (std::int64_t column = 0; column < student.size(1); ++column) {
      const double log_p = log_share(teacher, row, column, t);
      sum += std::exp(log_p) * (log_p - log_share(student, row, column, t));
    }
  }
  return sum / static_cast<double>(student.size(0));
}

/// A teacher's logits, which agree with the student's about the first of four images alone.
at::Tensor mostly_opposed(const at::Tensor& student) {
  at::Tensor teacher = -2 * student;
  teacher[0].copy_(student[0]);
  return teacher;
}

TEST(ClassificationTaskTest, IsTheCrossEntropyOfTheLabels) {
  VisionTransformer model = some_model();
  const Batch batch = some_batch();
  const at::Tensor logits = heads_of(model, batch.images).of_class;
  ClassificationTask plain(*model, without_smoothing(), nullptr, 0);
  EXPECT_NEAR(loss_of(plain, batch), label_loss(logits, batch.targets), kTolerance);
  EXPECT_TRUE(plain.loss(batch, 0).parts.empty());

  ClassificationOptions options;
  options.mixup.label_smoothing = 0.2;
  ClassificationTask smoothed(*model, options, nullptr, 0);
  EXPECT_NEAR(loss_of(smoothed, batch), label_loss(logits, batch.targets, 0.2), kTolerance);
}

TEST(ClassificationTaskTest, PenaltiesOfAttentionAreAdded) {
  VisionTransformer model = random_model(small_config("adaptive_span:1-2"));
  double expected = 0;
  for (const char* layer : {"1", "2"}) {
    const at::Tensor length =
        parameter(*model, std::string("blocks.") + layer + ".attn.span.length");
    expected += 0.02 * length.abs().mean().item<double>();
  }
  const Batch batch = some_batch();
  const at::Tensor logits = heads_of(model, batch.images).of_class;
  ClassificationTask task(*model, without_smoothing(), nullptr, 0);
  const StepLoss cost = task.loss(batch, 0);
  EXPECT_NEAR(cost.parts.at("penalty").item<double>(), expected, 1e-6);
  EXPECT_NEAR(cost.loss.item<double>(), label_loss(logits, batch.targets) + expected, kTolerance);
}

TEST(ClassificationTaskTest, LayersOfTokensAreAddedWhereTokensHalt) {
  VitConfig config = small_config();
  config.halting = true;
  config.gate_scale = 3;
  config.gate_center = 1;
  VisionTransformer model = random_model(config);
  const Batch batch = some_batch();
  const at::Tensor logits = heads_of(model, batch.images).of_class;
  ClassificationOptions options = without_smoothing();
  options.ponder_weight = 0.5;
  ClassificationTask task(*model, options, nullptr, 0);
  const StepLoss cost = task.loss(batch, 0);
  const double ponder = cost.parts.at("ponder").item<double>();
  const double layers = cost.parts.at("layers").item<double>();
  EXPECT_GT(layers, 1);
  EXPECT_LT(layers, static_cast<double>(config.depth));
  EXPECT_GT(ponder, layers);
  EXPECT_LE(ponder, layers + 1);
  EXPECT_NEAR(cost.loss.item<double>(), label_loss(logits, batch.targets) + 0.5 * ponder,
              kTolerance);
}

TEST(ClassificationTaskTest, MixedImagesHaveBothLabels) {
  VisionTransformer model = some_model();
  Batch batch = some_batch();
  batch.epoch = 2;
  batch.index = 5;
  ClassificationOptions options = without_smoothing();
  options.mixup.mixup_alpha = 1;
  constexpr int kRank = 3;
  const Mixing mixing = draw_mixing(options.mixup, batch, options.seed, kRank);
  ASSERT_GT(std::min(mixing.share, 1 - mixing.share), 0.01);
  const at::Tensor logits = heads_of(model, mix_images(batch.images, mixing)).of_class;
  const double expected = mixing.share * label_loss(logits, batch.targets) +
                          (1 - mixing.share) * label_loss(logits, batch.targets.flip(0));
  ClassificationTask task(*model, options, nullptr, kRank);
  EXPECT_NEAR(loss_of(task, batch), expected, kTolerance);

  // Drawn from the batch's place alone, and from all of it: a resumed run mixes alike.
  at::manual_seed(99);
  EXPECT_NEAR(loss_of(task, batch), expected, kTolerance);
  ClassificationTask of_another_rank(*model, options, nullptr, kRank + 1);
  EXPECT_GT(std::abs(loss_of(of_another_rank, batch) - expected), 10 * kTolerance);
  batch.index = 6;
  EXPECT_GT(std::abs(loss_of(task, batch) - expected), 10 * kTolerance);
  batch.index = 5;
  batch.epoch = 3;
  EXPECT_GT(std::abs(loss_of(task, batch) - expected), 10 * kTolerance);
}

// Two views of two parts each: what is wanted of a view is the mean of its parts' smoothed labels.
TEST(ClassificationTaskTest, AViewHasTheMeanOfItsPartsLabels) {
  VisionTransformer model = some_model();
  Batch batch = some_batch();  // labels 0, 3 in the first view and 1, 4 in the second
  at::manual_seed(5);
  batch.views = at::randn({2, 3, 40, 64});
  const at::Tensor logits = heads_of(model, batch.views).of_class;
  ClassificationOptions options;
  options.mixup.label_smoothing = 0.2;
  constexpr double kLow = 0.2 / 5;
  constexpr double kHigh = 0.8 / 2 + kLow;
  constexpr double kWanted[2][5] = {{kHigh, kLow, kLow, kHigh, kLow},
                                    {kLow, kHigh, kLow, kLow, kHigh}};
  double of_labels = 0;
  for (int view = 0; view < 2; ++view)
    for (int c = 0; c < 5; ++c) of_labels -= kWanted[view][c] * log_share(logits, view, c) / 2;
  ClassificationTask task(*model, options, nullptr, 0);
  EXPECT_NEAR(loss_of(task, batch), of_labels, kTolerance);

  // A teacher is asked about every part by itself.
  const at::Tensor teacher = at::one_hot(at::tensor({2, 2, 0, 1}, at::kLong), 5).to(at::kFloat);
  const double of_teacher = -(log_share(logits, 0, 2) + log_share(logits, 0, 2) +
                              log_share(logits, 1, 0) + log_share(logits, 1, 1)) /
                            4;
  const auto teach = [&](const at::Tensor& images) {
    EXPECT_TRUE(at::equal(images, batch.images));
    return teacher;
  };
  ClassificationTask taught(*model, options, teach, 0);
  EXPECT_NEAR(loss_of(taught, batch), (of_labels + of_teacher) / 2, kTolerance);
}

// DeiT's equation 3, with smoothed labels and the teacher's as they are.
TEST(ClassificationTaskTest, HardDistillationTakesTheTeachersClass) {
  VisionTransformer model = some_model();
  const Batch batch = some_batch();
  const at::Tensor logits = heads_of(model, batch.images).of_class;
  const at::Tensor teacher = mostly_opposed(logits);
  ClassificationOptions options;  // hard, one half: DeiT's
  options.mixup.label_smoothing = 0.1;
  const double of_labels = label_loss(logits, batch.targets, 0.1);
  const double of_teacher = label_loss(logits, teacher.argmax(1));
  for (const double weight : {0.5, 0.3}) {
    options.distillation_weight = weight;
    ClassificationTask task(
        *model, options, [&](const at::Tensor&) { return teacher; }, 0);
    const StepLoss cost = task.loss(batch, 0);
    EXPECT_NEAR(cost.loss.item<double>(), (1 - weight) * of_labels + weight * of_teacher,
                kTolerance);
    ASSERT_EQ(cost.parts.size(), 2);
    EXPECT_NEAR(cost.parts.at("label_loss").item<double>(), of_labels, kTolerance);
    EXPECT_FALSE(cost.parts.at("label_loss").requires_grad());
    EXPECT_DOUBLE_EQ(cost.parts.at("teacher_agreement").item<double>(), 0.25);
  }
}

// DeiT's equation 2.
TEST(ClassificationTaskTest, SoftDistillationComparesDistributions) {
  VisionTransformer model = some_model();
  const Batch batch = some_batch();
  const at::Tensor logits = heads_of(model, batch.images).of_class;
  const at::Tensor teacher = mostly_opposed(logits);
  ClassificationOptions options = without_smoothing();
  options.distillation_is_hard = false;
  options.distillation_weight = 0.1;
  options.temperature = 3;
  ClassificationTask task(
      *model, options, [&](const at::Tensor&) { return teacher; }, 0);
  EXPECT_NEAR(loss_of(task, batch),
              0.9 * label_loss(logits, batch.targets) + 0.1 * 9 * divergence(logits, teacher, 3),
              kTolerance);
}

TEST(ClassificationTaskTest, ADistilledStudentLearnsFromEachWithAHeadOfItsOwn) {
  VisionTransformer model = some_model(/*distilled=*/true);
  const Batch batch = some_batch();
  const HeadLogits logits = heads_of(model, batch.images);
  const at::Tensor teacher = mostly_opposed(logits.of_distillation);
  const auto teach = [&](const at::Tensor&) { return teacher; };
  const double of_labels = label_loss(logits.of_class, batch.targets);
  ASSERT_GT(std::abs(of_labels - label_loss(logits.of_distillation, batch.targets)), kTolerance);

  ClassificationOptions options = without_smoothing();
  options.distillation_weight = 0.4;
  ClassificationTask hard(*model, options, teach, 0);
  const StepLoss cost = hard.loss(batch, 0);
  EXPECT_NEAR(cost.loss.item<double>(),
              0.6 * of_labels + 0.4 * label_loss(logits.of_distillation, teacher.argmax(1)),
              kTolerance);
  EXPECT_NEAR(cost.parts.at("label_loss").item<double>(), of_labels, kTolerance);
  EXPECT_DOUBLE_EQ(cost.parts.at("teacher_agreement").item<double>(), 0.25);

  options.distillation_is_hard = false;
  options.temperature = 2;
  ClassificationTask soft(*model, options, teach, 0);
  EXPECT_NEAR(loss_of(soft, batch),
              0.6 * of_labels + 0.4 * 4 * divergence(logits.of_distillation, teacher, 2),
              kTolerance);

  // Weight one is the teacher's alone, zero the labels'.
  for (const bool is_hard : {true, false}) {
    for (const double weight : {0.0, 1.0}) {
      for (const at::Tensor& each : model->parameters()) each.mutable_grad().reset();
      options.distillation_is_hard = is_hard;
      options.distillation_weight = weight;
      ClassificationTask task(*model, options, teach, 0);
      task.loss(batch, 0).loss.backward();
      const auto moves = [&](const char* name) {
        return parameter(*model, name).grad().abs().sum().item<double>() > 0;
      };
      EXPECT_EQ(moves("head.weight"), weight == 0);
      EXPECT_EQ(moves("head_dist.weight"), weight == 1);
    }
  }
  // Nobody to learn from but the labels: the mean of the two, as timm's model gives it.
  ClassificationTask alone(*model, without_smoothing(), nullptr, 0);
  EXPECT_NEAR(loss_of(alone, batch),
              label_loss((logits.of_class + logits.of_distillation) / 2, batch.targets),
              kTolerance);
}

TEST(ClassificationTaskTest, TheTeacherSeesTheStudentsImagesAndIsNotTrained) {
  VisionTransformer model = some_model();
  const Batch batch = some_batch();
  const at::Tensor teacher = at::ones({4, 5}).requires_grad_();
  at::Tensor seen;
  const auto teach = [&](const at::Tensor& images) {
    seen = images;
    return teacher;
  };
  ClassificationOptions options;
  for (const bool is_hard : {true, false}) {
    options.distillation_is_hard = is_hard;
    ClassificationTask task(*model, options, teach, 0);
    task.loss(batch, 0).loss.backward();
    EXPECT_TRUE(at::equal(seen, batch.images));
    EXPECT_FALSE(teacher.grad().defined());
  }
  options.mixup.cutmix_alpha = 1;
  options.mixup.mixup_alpha = 1;
  ClassificationTask mixing(*model, options, teach, 0);
  mixing.loss(batch, 0);
  EXPECT_TRUE(at::equal(
      seen, mix_images(batch.images, draw_mixing(options.mixup, batch, options.seed, 0))));
}

// Their gradients are those of a plain pass: block_training_test.cpp.
TEST(ClassificationTaskTest, RecomputationAndDropPathReachTheModel) {
  VisionTransformer model = some_model();
  ClassificationOptions options;
  options.recompute_blocks = true;
  ClassificationTask plain(*model, options, nullptr, 0);
  options.drop_path_rate = 0.4;
  ClassificationTask dropping(*model, options, nullptr, 0);
  at::manual_seed(3);
  EXPECT_NE(loss_of(dropping, some_batch()), loss_of(plain, some_batch()));
  const at::Tensor loss = plain.loss(some_batch(), 0).loss;
  EXPECT_ERROR(torch::autograd::backward({loss}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               failed, "recomputed");
}

at::Tensor rows(std::initializer_list<double> values) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble).view({2, -1});
}

const at::Tensor& logits() {
  static const at::Tensor values = rows({1, -2, 0.5, 0, 3, 1});
  return values;
}

TEST(LossesTest, CrossEntropyIsItsFormula) {
  const at::Tensor targets = at::tensor({2, 1}, at::kLong);
  for (const double smoothing : {0.0, 0.1})
    EXPECT_NEAR(cross_entropy(logits(), targets, smoothing).item<double>(),
                label_loss(logits(), targets, smoothing), 1e-12);
}

TEST(LossesTest, SoftTargetsGeneraliseLabels) {
  const at::Tensor targets = at::tensor({2, 1}, at::kLong);
  const at::Tensor smoothed = at::one_hot(targets, 3).to(at::kDouble) * 0.9 + 0.1 / 3;
  EXPECT_NEAR(soft_cross_entropy(logits(), smoothed).item<double>(),
              cross_entropy(logits(), targets, 0.1).item<double>(), 1e-12);
}

TEST(LossesTest, DivergenceIsItsFormula) {
  const at::Tensor teacher = rows({0, 1, 2, -1, 0, 1});
  EXPECT_NEAR(logit_divergence(logits(), teacher, 3).item<double>(),
              9 * divergence(logits(), teacher, 3), 1e-12);
  EXPECT_NEAR(logit_divergence(teacher, teacher).item<double>(), 0, 1e-12);
}

TEST(LossesTest, GradientsReachTheStudentAlone) {
  const at::Tensor teacher = rows({0, 1, 2, -1, 0, 1}).requires_grad_();
  const at::Tensor student = logits().clone().requires_grad_();
  const double temperature = 2;
  logit_divergence(student, teacher, temperature).backward();
  EXPECT_FALSE(teacher.grad().defined());
  // d/dz = T (softmax(z / T) - softmax(teacher / T)) / B.
  const at::Tensor expected =
      temperature *
      (at::softmax(student / temperature, -1) - at::softmax(teacher / temperature, -1)) / 2;
  EXPECT_TRUE(at::allclose(student.grad(), expected, 1e-10, 1e-12));
}

TEST(LossesTest, DistillationIsDeits) {
  const at::Tensor teacher = rows({0, 1, 2, 4, 0, 1});
  const at::Tensor of_labels = at::scalar_tensor(0.7, at::kDouble);
  const double hard = label_loss(logits(), teacher.argmax(1));
  EXPECT_NEAR(hard_distillation(of_labels, logits(), teacher).item<double>(), 0.35 + 0.5 * hard,
              1e-12);
  const double soft = logit_divergence(logits(), teacher, 3).item<double>();
  EXPECT_NEAR(soft_distillation(of_labels, logits(), teacher, 3, 0.1).item<double>(),
              0.63 + 0.1 * soft, 1e-12);
}

TEST(LossesTest, HalfTypesAreComputedInFloat) {
  const at::Tensor half = logits().to(at::kBFloat16);
  const at::Tensor targets = at::tensor({2, 1}, at::kLong);
  EXPECT_EQ(cross_entropy(half, targets).scalar_type(), at::kFloat);
  EXPECT_EQ(logit_divergence(half, half).scalar_type(), at::kFloat);
}

TEST(LossesTest, DivergenceFromProbabilitiesIsThatFromLogits) {
  at::manual_seed(3);
  const at::Tensor student = at::randn({4, 7}, at::kDouble);
  const at::Tensor teacher = at::randn({4, 7}, at::kDouble);
  EXPECT_NEAR(divergence_from(student, teacher.softmax(-1)).item<double>(),
              logit_divergence(student, teacher).item<double>(), 1e-12);
  const at::Tensor certain = at::one_hot(at::tensor({0, 1, 2, 3}, at::kLong), 7).to(at::kDouble);
  EXPECT_NEAR(divergence_from(student, certain).item<double>(),
              -student.log_softmax(-1).narrow(1, 0, 4).diagonal().mean().item<double>(), 1e-12);
}

MixupOptions both() {
  MixupOptions options;
  options.mixup_alpha = 0.8;
  options.cutmix_alpha = 1;
  return options;
}

TEST(MixupTest, DrawsWhatIsAskedFor) {
  MixupOptions options = both();
  options.prob = 0.75;
  constexpr int kDraws = 4000;
  int mixed = 0, cutmix = 0;
  double mixup_share = 0;
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    RandomStream random({7, draw});
    const Mixing mixing = draw_mixing(options, 20, 30, random);
    if (mixing.is_cutmix) {
      ++cutmix;
      ASSERT_TRUE(0 <= mixing.top && mixing.top <= mixing.bottom && mixing.bottom <= 20);
      ASSERT_TRUE(0 <= mixing.left && mixing.left <= mixing.right && mixing.right <= 30);
      const auto area =
          static_cast<double>((mixing.bottom - mixing.top) * (mixing.right - mixing.left));
      ASSERT_DOUBLE_EQ(mixing.share, 1 - area / 600);
    } else if (mixing.share < 1) {
      mixup_share += mixing.share;
    }
    if (mixing.is_cutmix || mixing.share < 1) ++mixed;
  }
  // Four standard deviations: sqrt(4000 x 0.75 x 0.25) = 27, and of the share 0.31 / sqrt(1500).
  EXPECT_NEAR(mixed, 0.75 * kDraws, 110);
  EXPECT_NEAR(cutmix, 0.5 * 0.75 * kDraws, 123);
  EXPECT_NEAR(mixup_share / (mixed - cutmix), 0.5, 0.032);
}

TEST(MixupTest, OneOfTheTwoIsAlwaysThatOne) {
  MixupOptions mixup = both(), cutmix = both();
  mixup.cutmix_alpha = 0;
  cutmix.mixup_alpha = 0;
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    RandomStream random({8, draw});
    EXPECT_FALSE(draw_mixing(mixup, 8, 8, random).is_cutmix);
    EXPECT_TRUE(draw_mixing(cutmix, 8, 8, random).is_cutmix);
    EXPECT_EQ(draw_mixing({}, 8, 8, random).share, 1);
  }
}

TEST(MixupTest, MixesImages) {
  at::manual_seed(0);
  const at::Tensor images = at::randn({4, 3, 6, 8});
  Mixing mixing;
  mixing.share = 0.3;
  const at::Tensor mixed = mix_images(images, mixing);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(at::allclose(mixed[i], 0.3 * images[i] + 0.7 * images[3 - i], 1e-5, 1e-6)) << i;
}

TEST(MixupTest, CutsABoxOutOfTheOtherImage) {
  at::manual_seed(0);
  const at::Tensor images = at::randn({4, 3, 6, 8});
  const at::Tensor before = images.clone();
  const at::Tensor mixed = mix_images(images, {0.75, true, 1, 4, 2, 6});
  EXPECT_TRUE(at::equal(images, before));
  for (int i = 0; i < 4; ++i) {
    for (int row = 0; row < 6; ++row) {
      for (int column = 0; column < 8; ++column) {
        const bool inside = row >= 1 && row < 4 && column >= 2 && column < 6;
        const at::Tensor expected = images.select(0, inside ? 3 - i : i);
        ASSERT_TRUE(at::equal(mixed.select(0, i).select(1, row).select(1, column),
                              expected.select(1, row).select(1, column)))
            << i << ": " << row << ", " << column;
      }
    }
  }
}

TEST(MixupTest, MixesAndSmoothsTargets) {
  Mixing mixing;
  mixing.share = 0.75;
  const at::Tensor mixed = mix_targets(at::tensor({2, 0}, at::kLong), 4, mixing, 0.2);
  const at::Tensor expected = at::tensor({0.05 + 0.25 * 0.8, 0.05, 0.05 + 0.75 * 0.8, 0.05,  //
                                          0.05 + 0.75 * 0.8, 0.05, 0.05 + 0.25 * 0.8, 0.05},
                                         at::kDouble)
                                  .view({2, 4});
  EXPECT_EQ(mixed.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(mixed.to(at::kDouble), expected, 1e-6, 1e-7));
}

}  // namespace classification_task_test
}  // namespace hydrascope::model::training
