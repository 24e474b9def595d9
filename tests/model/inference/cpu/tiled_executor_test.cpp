// The executor on a processor with AMX: its own, or one whose machine code is trapped and emulated.
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/model/inference/cpu/small_network.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace tiled_executor_test {

using namespace executor_test;  // NOLINT(google-build-using-namespace)

class TiledExecutor : public ::testing::TestWithParam<bool> {};

TEST_P(TiledExecutor, APrefixIsTheSameBitsHoweverItIsCut) {
  const bool integers = GetParam();
  const auto network_of = [&](std::int64_t prefix) {
    Network network = make_windowed_network(Storage::bfloat16, false);
    network.num_prefix = prefix;
    return integers ? quantised(std::move(network)) : std::move(network);
  };
  for (const std::int64_t prefix : {1, 2, 5}) {
    SCOPED_TRACE(std::to_string(prefix) + " prefix tokens");
    const std::vector<float> by_vectors = logits_of(network_of(prefix), 7, 12, 1, 1, 1);
    kernels::test::for_each_target_beside_amx([&] {
      // Sums of products are rounded in another order.
      expect_near(expect_same_bits_however_the_prefix_is_cut(network_of(prefix), 7, 12, 1, 2),
                  by_vectors, 0.05F);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, TiledExecutor, ::testing::Bool(), [](const auto& integers) {
  return std::string(integers.param ? "int8" : "bfloat16");
});

}  // namespace tiled_executor_test
}  // namespace hydrascope::model::inference
