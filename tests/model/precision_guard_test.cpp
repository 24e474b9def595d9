#include "model/precision_guard.h"

#include "kernels/error.h"
#include "model/inference/classifier.h"
#include "model/torch_errors.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace precision_guard_test {

TEST(PrecisionGuardTest, LeavesThePrecisionOfTheProcessAsItWas) {
  at::Context& context = at::globalContext();
  const auto settings = [&] {
    return std::vector<bool>{context.allowTF32CuBLAS(), context.allowTF32CuDNN(),
                             context.deterministicAlgorithms()};
  };
  const std::vector<bool> before = settings();
  {
    const PrecisionGuard tf32(true, true);
    EXPECT_EQ(settings(), (std::vector<bool>{true, true, true}));
    {
      const PrecisionGuard exact(false, false);
      EXPECT_EQ(settings(), (std::vector<bool>{false, false, true}))
          << "a process that is deterministic stays so";
    }
    EXPECT_EQ(settings(), (std::vector<bool>{true, true, true}));
  }
  EXPECT_EQ(settings(), before);
  inference::InferenceOptions options;
  options.kernels = Kernels::reference;
  options.deterministic = true;
  options.precision.tf32 = true;
  Classifier classifier(inference::small(), options);
  EXPECT_EQ(settings(), before);
  classifier.engine().logits(at::zeros({1, 3, 64, 64}));
  EXPECT_EQ(settings(), before);
}

/// The settings of this thread's operators: TF32, determinism.
std::set<std::pair<bool, bool>>& seen_settings() {
  static std::set<std::pair<bool, bool>> seen;
  return seen;
}

TEST(PrecisionGuardTest, TwoClassifiersOfAProcessComputeEachByItsOwnSettings) {
  inference::InferenceOptions options;
  options.kernels = Kernels::reference;
  Classifier plain(inference::small(), options);
  options.deterministic = true;
  options.precision.tf32 = true;
  Classifier other(inference::small(), options);  // the one that is made last once decided for both
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&)
                                     -> std::unique_ptr<at::ObserverContext> {
        const at::Context& context = at::globalContext();
        seen_settings().emplace(context.allowTF32CuBLAS(), context.deterministicAlgorithms());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const at::Tensor images = at::zeros({1, 3, 64, 64});
  const auto settings_of = [&](Classifier& classifier) {
    seen_settings().clear();
    classifier.engine().logits(images);
    return seen_settings();
  };
  using Settings = std::set<std::pair<bool, bool>>;
  const Settings of_plain = settings_of(plain);
  const Settings of_other = settings_of(other);
  const Settings of_plain_again = settings_of(plain);
  at::removeCallback(handle);
  // The call's own few operators lie outside the batch.
  EXPECT_FALSE(of_plain.contains({true, true}));
  EXPECT_TRUE(of_other.contains({true, true}));
  EXPECT_EQ(of_plain_again, of_plain);
}

TEST(TorchErrorsTest, NamesWhatLacksMemoryAndWhatNeedsLess) {
  EXPECT_ERROR(with_torch_errors("the model", "cpu", "`precision` bfloat16 needs half as much",
                                 [] { throw std::bad_alloc(); }),
               out_of_memory, "not enough memory for the model", "cpu", "needs half as much");
}

}  // namespace precision_guard_test
}  // namespace hydrascope::model
