// The executor on AMX: on the processor's own, or on its machine code that is trapped and emulated.
#include <hwy/highway.h>

#include "kernels/device/matrix_instructions.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/model/inference/cpu/small_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <hwy/per_target.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace tiled_executor_test {

using namespace executor_test;  // NOLINT(google-build-using-namespace)
using kernels::device::MatrixInstruction;

constexpr MatrixInstruction kTileInstructions[] = {MatrixInstruction::amx_bf16,
                                                   MatrixInstruction::amx_int8};

/// A processor with AMX while this lives.
class Tiles {
 public:
  Tiles() {
    if (kernels::device::amx_refusal() == nullptr) return;
    trap_.emplace();
    for (const MatrixInstruction each : kTileInstructions) kernels::device::pretend_for_test(each);
  }
  ~Tiles() {
    if (!trap_) return;
    for (const MatrixInstruction each : kTileInstructions)
      kernels::device::allow_for_test(each, false);
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  /// Products that were emulated; nothing on a processor with AMX.
  [[nodiscard]] std::optional<std::int64_t> products() {
    return trap_ ? std::optional(trap_->tiles().counts().dot) : std::nullopt;
  }

 private:
  std::optional<kernels::test::TrappedTiles> trap_;
};

/// The reason why kernels have no code for AMX here; null: they have.
const char* why_no_tiles() {
#if !defined(__x86_64__)
  return "AMX's instructions are x86-64's";
#else
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return std::ranges::find(targets, HWY_AVX3) == targets.end()
             ? "kernels use AMX beside AVX-512 alone"
             : nullptr;
#endif
}

class TiledExecutor : public ::testing::TestWithParam<bool> {};

TEST_P(TiledExecutor, APrefixIsTheSameBitsHoweverItIsCut) {
  if (const char* reason = why_no_tiles()) GTEST_SKIP() << reason;
  const bool integers = GetParam();
  for (const std::int64_t prefix : {1, 2, 5}) {
    SCOPED_TRACE(std::to_string(prefix) + " prefix tokens");
    const auto network_of = [&] {
      Network network = make_windowed_network(Storage::bfloat16, false);
      network.num_prefix = prefix;
      return integers ? quantised(std::move(network)) : std::move(network);
    };
    const std::vector<float> by_vectors = logits_of(network_of(), 7, 12, 1, 1, 1);
    Tiles tiles;
    const std::vector<float> by_tiles =
        expect_same_bits_however_the_prefix_is_cut(network_of(), 7, 12, 1, 2);
    EXPECT_NE(tiles.products(), 0);
    // Sums of products are rounded in another order.
    expect_near(by_tiles, by_vectors, 0.05F);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TiledExecutor, ::testing::Bool(), [](const auto& integers) {
  return std::string(integers.param ? "int8" : "bfloat16");
});

}  // namespace tiled_executor_test
}  // namespace hydrascope::model::inference
