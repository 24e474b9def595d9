#include "model/training/parallel/process_group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

TEST(SingleProcess, ChangesNothing) {
  const auto group = make_single_process();
  EXPECT_EQ(group->world_size(), 1);
  EXPECT_TRUE(group->is_first());
  const at::Tensor values = at::arange(4, at::kFloat);
  group->broadcast({values});
  group->sum({values});
  group->barrier();
  EXPECT_TRUE(at::equal(values, at::arange(4, at::kFloat)));
}

}  // namespace
}  // namespace hydrascope::model::training
