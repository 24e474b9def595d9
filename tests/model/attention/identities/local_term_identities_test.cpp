// The local term (local_term.h) by its definition, whatever mechanism it is added to. The twins are
// held against all options in the conformance suite.
#include "tests/error_matchers.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace local_term_identities_test {

using model::Kernels;
using model::TokenGrid;

const HeadShape kShape{2, 4};
const TokenGrid kTraining{2, 4, 3};
/// With an overview.
const TokenGrid kGrid{2, 5, 7, 3, 4};

std::vector<std::string> mechanisms_with_a_local_term() {
  std::vector<std::string> names;
  for (const model::MechanismEntry* entry : model::mechanisms()) {
    if (std::ranges::find(entry->options, "local", &model::MechanismOption::key) !=
        entry->options.end())
      names.push_back(entry->name);
  }
  return names;
}

bool knows_one_grid(const std::string& name) { return name == "cosformer"; }

class LocalTerm : public ::testing::TestWithParam<std::string> {
 protected:
  static Tokens tokens() {
    at::manual_seed(4);
    return random_tokens(2, grid().num_tokens(), kShape, at::kDouble);
  }
  static TokenGrid grid() {
    TokenGrid grid = kGrid;
    if (knows_one_grid(GetParam())) grid.overview_rows = grid.overview_columns = 0;
    return grid;
  }
  static MixerUnderTest mixer(const std::string& local) {
    return plain_mixer(spec_of(GetParam(), {{"local", local}}), kTraining, kShape);
  }
};

TEST_P(LocalTerm, IsTheMechanismOfWindows) {
  const c10::InferenceMode inference;
  const TokenGrid larger{2, 9, 15, grid().overview_rows, grid().overview_columns};
  at::manual_seed(4);
  const Tokens all = random_tokens(2, larger.num_tokens(), kShape, at::kDouble);
  const MixerUnderTest windows =
      plain_mixer(spec_of("window", {{"size", "7"}, {"prefix_rows", "scaled"}}), kTraining, kShape);
  const at::Tensor expected = mixer("none").mix(all, larger) + windows.mix(all, larger);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference})
    EXPECT_TRUE(all_near(mixer("window7").mix(all, larger, kernels), expected, 1e-12));
}

TEST_P(LocalTerm, RowsAndContributionsAreThoseOfTheSum) {
  const c10::InferenceMode inference;
  const Tokens all = tokens();
  const std::int64_t n = grid().num_tokens();
  const MixerUnderTest both = mixer("window7");
  const at::Tensor y = both.mix(all, grid());
  EXPECT_TRUE(all_near(both.mixer().mix_rows(all.q, all.k, all.v, grid(), 3, 20),
                       y.narrow(1, 3, 20), 1e-12));
  for (const std::int64_t query : {std::int64_t{0}, std::int64_t{2}, std::int64_t{20}, n - 1}) {
    SCOPED_TRACE(query);
    EXPECT_TRUE(all_near(both.contributions(all, grid(), query).sum(1), y.select(1, query), 1e-12));
    const at::Tensor g = at::randn({2, 1, y.size(2)}, at::kDouble);
    const at::Tensor weighted =
        both.mixer().weighted_rows(all.q, all.k, all.v, g, grid(), query, 1);
    EXPECT_TRUE(all_near(weighted.sum(3).sum(1), (g * y.narrow(1, query, 1)).sum(2), 1e-11));
  }
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, LocalTerm, ::testing::ValuesIn(mechanisms_with_a_local_term()),
                         [](const auto& name) { return name.param; });

}  // namespace local_term_identities_test
}  // namespace hydrascope::testing
