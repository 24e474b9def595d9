#include "model/training/losses.h"

#include "tests/model/training/reference_losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace losses_test {

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

}  // namespace losses_test
}  // namespace hydrascope::model::training
