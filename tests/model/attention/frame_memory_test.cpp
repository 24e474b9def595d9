// Memories over frames in the mixers that take them: naive twins in double, still videos, beginnings.
#include "model/attention/memories/frame_memory.h"

#include "tests/error_matchers.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/twins/frame_twins.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace frame_memory_test {

using at::Tensor;
using model::FrameMemory;
using model::Kernels;
using model::MemorySpec;
using model::TokenGrid;

const TokenGrid kGrid{2, 3, 5};
const HeadShape kShape{3, 8};
constexpr double kExact = 1e-12;

std::unique_ptr<FrameMemory> memory_of(const std::string& name,
                                       std::map<std::string, std::string> options = {}) {
  return model::find_memory(name).make(model::memory_options({name, std::move(options)}));
}

std::vector<Tokens> frames(std::int64_t count) {
  at::manual_seed(41);
  std::vector<Tokens> list;
  for (std::int64_t i = 0; i < count; ++i)
    list.push_back(random_tokens(1, kGrid.num_tokens(), kShape, at::kDouble));
  return list;
}

MixerUnderTest exact_mixer(const model::AttentionSpec& spec) {
  at::manual_seed(42);
  MixerUnderTest mixer(spec, kGrid, kShape);
  mixer.make_exact();
  return mixer;
}

Tensor mix(FrameMemory& memory, const MixerUnderTest& mixer, const Tokens& x) {
  return memory.mix(mixer.mixer(), x.q, x.k, x.v, kGrid, Kernels::reference);
}

/// y (1, N, D) of y_i (d) for every head and query.
Tensor by_queries(const std::function<Tensor(std::int64_t head, std::int64_t query)>& of) {
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < kShape.num_heads; ++h) {
    std::vector<Tensor> rows;
    for (std::int64_t i = 0; i < kGrid.num_tokens(); ++i) rows.push_back(of(h, i));
    heads.push_back(at::stack(rows));
  }
  return at::cat(heads, 1).unsqueeze(0);
}

Tensor row(const Tensor& x, std::int64_t head, std::int64_t token) { return x[0][head][token]; }

// ---- state

/// The output of a twin for the frames so far, the newest last.
Tensor output_of(const FrameTwin& twin, const std::vector<Tokens>& seen) {
  std::vector<Frame> newest_first;
  for (auto x = seen.rbegin(); x != seen.rend(); ++x)
    newest_first.push_back({{}, x->q[0], x->k[0], x->v[0]});
  const Tensor y =
      (twin(newest_first) * values_of(newest_first).unsqueeze(1)).sum(-1);  // (H, N, d)
  return y.transpose(0, 1).flatten(1).unsqueeze(0);
}

TEST(StateMemoryTest, AgreesWithItsTwin) {
  const at::NoGradGuard no_grad;
  for (const char* text : {"0.3", "0.7", "0.99"}) {
    const double lambda = std::stod(text);
    for (const auto& [mechanism, twin] : std::map<std::string, FrameTwin>{
             {"elu", linear_over_frames(lambda, elu_plus_one, 1e-6)},
             {"exp", linear_over_frames(
                         lambda, [](const Tensor& x) { return x.exp(); }, 0)},
             {"hydra", hydra_over_frames(lambda)}}) {
      SCOPED_TRACE(mechanism + " " + text);
      const MixerUnderTest mixer = exact_mixer(spec_of(mechanism));
      const auto memory = memory_of("state", {{"lambda", text}});
      std::vector<Tokens> seen;
      for (const Tokens& frame : frames(4)) {
        seen.push_back(frame);
        EXPECT_TRUE(all_near(mix(*memory, mixer, frame), output_of(twin, seen), kExact));
      }
    }
  }
}

class MechanismsWithAState : public ::testing::Test {
 protected:
  /// Every variant of every mechanism that has a state.
  static void for_each(const std::function<void(const MixerUnderTest&)>& body) {
    std::int64_t count = 0;
    for (const model::MechanismEntry* entry : model::mechanisms()) {
      if (!entry->has_state) continue;
      for (const model::AttentionSpec& spec : variants(*entry)) {
        SCOPED_TRACE(describe(spec));
        body(exact_mixer(spec));
        ++count;
      }
    }
    EXPECT_GT(count, 40);
  }
};

TEST_F(MechanismsWithAState, AStillVideoStaysWhereItIs) {
  const at::NoGradGuard no_grad;
  const Tokens still = frames(1).front();
  for_each([&](const MixerUnderTest& mixer) {
    const Tensor alone = mixer.mix(still, kGrid, Kernels::reference);
    const auto memory = memory_of("state");
    for (int frame = 0; frame < 4; ++frame)
      EXPECT_LT(relative_error(mix(*memory, mixer, still), alone), 1e-9) << "frame " << frame;
  });
}

TEST_F(MechanismsWithAState, EarlierFramesCountUntilTheyAreForgotten) {
  const at::NoGradGuard no_grad;
  const std::vector<Tokens> video = frames(3);
  for_each([&](const MixerUnderTest& mixer) {
    const auto memory = memory_of("state");
    const Tensor first = mix(*memory, mixer, video[0]);
    mix(*memory, mixer, video[1]);
    EXPECT_GT(relative_error(mix(*memory, mixer, video[0]), first), 1e-4);
    memory->forget();
    EXPECT_TRUE(at::equal(mix(*memory, mixer, video[0]), first));
  });
}

TEST_F(MechanismsWithAState, WithoutWeightEveryFrameIsAlone) {
  const at::NoGradGuard no_grad;
  for_each([&](const MixerUnderTest& mixer) {
    const auto memory = memory_of("state", {{"lambda", "0"}});
    for (const Tokens& frame : frames(3))
      EXPECT_TRUE(
          at::equal(mix(*memory, mixer, frame), mixer.mix(frame, kGrid, Kernels::reference)));
  });
}

/// `mix` is `look` and then `join`, and looking changes nothing; a few queries are the first rows.
void expect_parts_of_mix(const MixerUnderTest& mixer, const std::string& memory) {
  const std::vector<Tokens> video = frames(3);
  const auto whole = memory_of(memory);
  const auto parts = memory_of(memory);
  const std::int64_t few =
      mixer.mixer().needs_all_queries() ? kGrid.num_tokens() : kGrid.num_prefix;
  for (const Tokens& frame : video) {
    const auto look = [&](const Tensor& q) {
      return parts->look(mixer.mixer(), q, frame.k, frame.v, kGrid, Kernels::automatic);
    };
    const Tensor q = frame.q.narrow(2, 0, few);
    const Tensor first = look(frame.q);
    EXPECT_TRUE(at::equal(look(frame.q), first));
    EXPECT_LT(relative_error(look(q), first.narrow(1, 0, few)), 1e-9);
    EXPECT_LT(relative_error(mix(*whole, mixer, frame), first), 1e-9);
    parts->join(mixer.mixer(), q, frame.k, frame.v, kGrid);
  }
}

TEST_F(MechanismsWithAState, AFrameLooksAndThenJoins) {
  const at::NoGradGuard no_grad;
  for_each([&](const MixerUnderTest& mixer) { expect_parts_of_mix(mixer, "state"); });
}

TEST(StateMemoryTest, OthersSayThatTheyHaveNoState) {
  const at::NoGradGuard no_grad;
  const Tokens x = frames(1).front();
  for (const model::MechanismEntry* entry : model::mechanisms()) {
    if (entry->has_state) continue;
    const MixerUnderTest mixer = exact_mixer({entry->name, {}});
    EXPECT_ERROR(mixer.mixer().mix_state(x.q, x.k, x.v, kGrid, [](auto&) {}), internal, "no state");
  }
}

TEST(StateMemoryTest, HalfTypesStayNear) {
  const at::NoGradGuard no_grad;
  for (const char* mechanism : {"elu", "hedgehog", "hydra"}) {
    SCOPED_TRACE(mechanism);
    const MixerUnderTest mixer = exact_mixer(spec_of(mechanism));
    const auto exact = memory_of("state");
    std::vector<Tensor> expected;
    for (const Tokens& frame : frames(3)) expected.push_back(mix(*exact, mixer, frame));
    mixer.owner().to(at::kBFloat16);
    const auto memory = memory_of("state");
    for (std::size_t t = 0; t < 3; ++t) {
      const Tensor y = mix(*memory, mixer, frames(3)[t].to(at::kBFloat16));
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      EXPECT_LT(relative_l2(y, expected[t]), 0.05);
    }
  }
}

// ---- keys and values

/// Softmax over keys and values (M, d) of one head.
Tensor softmax_over(const Tensor& q, const std::vector<Tensor>& keys,
                    const std::vector<Tensor>& values) {
  const Tensor weights = (at::stack(keys).mv(q) / std::sqrt(kShape.head_dim)).softmax(0);
  return at::stack(values).t().mv(weights);
}

TEST(XlMemoryTest, AgreesWithItsTwin) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = exact_mixer(spec_of("softmax"));
  for (const std::int64_t count : {1, 2, 5}) {
    for (const double decay : {0.0, 0.5}) {
      SCOPED_TRACE(std::to_string(count) + " frames, decay " + std::to_string(decay));
      const auto memory =
          memory_of("xl", {{"frames", std::to_string(count)}, {"decay", std::to_string(decay)}});
      std::vector<Tokens> seen;
      for (const Tokens& frame : frames(4)) {
        seen.push_back(frame);
        if (std::ssize(seen) > count + 1) seen.erase(seen.begin());
        const Tensor expected = output_of(softmax_over_frames(decay), seen);
        EXPECT_TRUE(all_near(mix(*memory, mixer, frame), expected, kExact));
      }
    }
  }
}

TEST(XlMemoryTest, AStillVideoStaysWhereItIs) {
  const at::NoGradGuard no_grad;
  const Tokens still = frames(1).front();
  for (const char* scale : {"none", "log"}) {
    const MixerUnderTest mixer = exact_mixer(spec_of("softmax", {{"logit_scale", scale}}));
    const auto memory = memory_of("xl", {{"frames", "3"}, {"decay", "0.2"}});
    for (int frame = 0; frame < 5; ++frame)
      EXPECT_TRUE(all_near(mix(*memory, mixer, still), mixer.mix(still, kGrid), kExact));
  }
}

TEST(CompressiveMemoryTest, AgreesWithItsTwin) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = exact_mixer(spec_of("softmax"));
  const std::int64_t prefix = kGrid.num_prefix;
  // The cells of a frame, as patches; the columns' last cell has one.
  std::vector<std::vector<std::int64_t>> cells;
  for (std::int64_t top = 0; top < kGrid.rows; top += 2) {
    for (std::int64_t left = 0; left < kGrid.columns; left += 2) {
      std::vector<std::int64_t>& cell = cells.emplace_back();
      for (std::int64_t r = top; r < std::min(top + 2, kGrid.rows); ++r)
        for (std::int64_t c = left; c < std::min(left + 2, kGrid.columns); ++c)
          cell.push_back(prefix + r * kGrid.columns + c);
    }
  }
  for (const std::string by : {"mean", "max", "most_used"}) {
    SCOPED_TRACE(by);
    const auto memory = memory_of("compressive", {{"by", by}, {"compressed", "2"}});
    std::vector<Tokens> seen;
    for (const Tokens& frame : frames(5)) {
      seen.push_back(frame);
      const std::int64_t last = std::ssize(seen) - 1;
      /// The patches that the prefix of a frame looks at most.
      const auto most_used = [&](const Tokens& of) {
        std::vector<double> use(static_cast<std::size_t>(kGrid.num_tokens()));
        for (std::int64_t h = 0; h < kShape.num_heads; ++h) {
          for (std::int64_t i = 0; i < prefix; ++i) {
            const Tensor weights =
                (at::mv(of.k[0][h], row(of.q, h, i)) / std::sqrt(kShape.head_dim)).softmax(0);
            for (std::int64_t j = 0; j < kGrid.num_tokens(); ++j)
              use[static_cast<std::size_t>(j)] += weights[j].item<double>();
          }
        }
        std::vector<std::int64_t> patches;
        for (std::int64_t j = prefix; j < kGrid.num_tokens(); ++j) patches.push_back(j);
        std::ranges::sort(patches, std::greater<>(),
                          [&](std::int64_t j) { return use[static_cast<std::size_t>(j)]; });
        patches.resize(cells.size());
        return patches;
      };
      const Tensor expected = by_queries([&](std::int64_t h, std::int64_t i) {
        std::vector<Tensor> keys;
        std::vector<Tensor> values;
        for (std::int64_t age = 0; age <= std::min<std::int64_t>(1, last); ++age) {
          const Tokens& whole = seen[static_cast<std::size_t>(last - age)];
          for (std::int64_t j = 0; j < kGrid.num_tokens(); ++j) {
            keys.push_back(row(whole.k, h, j));
            values.push_back(row(whole.v, h, j));
          }
        }
        for (std::int64_t age = 2; age <= std::min<std::int64_t>(3, last); ++age) {
          const Tokens& old = seen[static_cast<std::size_t>(last - age)];
          if (by == "most_used") {
            for (const std::int64_t j : most_used(old)) {
              keys.push_back(row(old.k, h, j));
              values.push_back(row(old.v, h, j));
            }
            continue;
          }
          for (const auto& cell : cells) {
            const Tensor index = at::tensor(cell);
            const auto one = [&](const Tensor& x) {
              const Tensor all = x[0][h].index_select(0, index);
              return by == "mean" ? all.mean(0) : all.amax(0);
            };
            keys.push_back(one(old.k));
            values.push_back(one(old.v));
          }
        }
        return softmax_over(row(frame.q, h, i), keys, values);
      });
      EXPECT_TRUE(all_near(mix(*memory, mixer, frame), expected, kExact));
    }
  }
}

TEST(FrameMemoryTest, MemoriesOfTokensForgetAndEarlierFramesCount) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = exact_mixer(spec_of("softmax"));
  const std::vector<Tokens> video = frames(4);
  for (const char* name : {"xl", "compressive"}) {
    SCOPED_TRACE(name);
    const auto memory = memory_of(name);
    std::vector<Tensor> first;
    for (const Tokens& frame : video) first.push_back(mix(*memory, mixer, frame));
    EXPECT_TRUE(at::equal(first[0], mixer.mix(video[0], kGrid, Kernels::reference)));
    EXPECT_GT(relative_error(first[1], mixer.mix(video[1], kGrid)), 1e-4);
    memory->forget();
    for (std::size_t t = 0; t < video.size(); ++t)
      EXPECT_TRUE(at::equal(mix(*memory, mixer, video[t]), first[t])) << t;
  }
  EXPECT_TRUE(at::equal(mix(*memory_of("xl", {{"frames", "0"}}), mixer, video[0]),
                        mixer.mix(video[0], kGrid, Kernels::reference)));
}

TEST(FrameMemoryTest, AFrameLooksAndThenJoins) {
  const at::NoGradGuard no_grad;
  for (const char* name : {"xl", "compressive"})
    expect_parts_of_mix(exact_mixer(spec_of("softmax")), name);
}

}  // namespace frame_memory_test
}  // namespace hydrascope::testing
