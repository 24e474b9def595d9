// Maps of a frame beside the frames before it, against twins that hold the tokens of all frames, in double.
#include "model/explain/explainer.h"
#include "tests/error_matchers.h"
#include "tests/model/attention/twins/frame_twins.h"
#include "tests/model/explain/brute_force.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace remembered_rows_test {

using at::Tensor;
using model::VitConfig;
using model::explain::Explainer;
using model::explain::Explanation;
using model::explain::memory_share;
using model::explain::Method;
using model::explain::Request;

constexpr std::int64_t kLast = 2;  // of three layers

/// A model, and frames in front of its last block, in double.
class Video {
 public:
  Video(const VitConfig& config, int frames) : model_(random_vit(config, 7, 0.15, "projection")) {
    const at::NoGradGuard no_grad;
    model_->eval();
    model_->to(at::kDouble);
    for (Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
    for (int t = 0; t < frames; ++t) {
      Frame frame;
      frame.tokens = at::randn({1, grid().num_tokens(), config.embed_dim}, at::kDouble);
      const auto parts = block().attention().project(block().normalise(frame.tokens));
      frame.q = parts.q.squeeze(0);
      frame.k = parts.k.squeeze(0);
      frame.v = parts.v.squeeze(0);
      frames_.push_back(frame);
    }
  }
  [[nodiscard]] const VitConfig& config() const { return model_->config(); }
  [[nodiscard]] model::TokenGrid grid() const {
    return config().token_grid_of_pixels(config().img_height, config().img_width);
  }
  [[nodiscard]] const std::vector<Frame>& frames() const { return frames_; }

  [[nodiscard]] Explainer explainer(const std::vector<Request>& requests, const std::string& memory,
                                    const std::vector<std::string>& settings = {}) const {
    const auto fill = [this](model::VisionTransformerImpl& other, std::span<const std::int64_t>) {
      const auto source = model::named_tensors(*model_);
      const auto target = model::named_tensors(other);
      for (std::size_t i = 0; i < source.size(); ++i) target[i].second.copy_(source[i].second);
    };
    return {
        config(), requests, fill, {at::kCPU, model::choose_memories(memory, settings, config())}};
  }
  [[nodiscard]] std::vector<Explanation> explain(Explainer& explainer, const Frame& frame,
                                                 const std::vector<Request>& requests) const {
    return explainer.explain(frame.tokens.to(at::kFloat), grid(), requests);
  }
  /// d logit / d y at the class token, whose row of the mixing is y (H, d): (H, d).
  [[nodiscard]] Tensor gradient(const Frame& frame, const Tensor& y, std::int64_t index) const {
    const Tensor mixed = y.reshape({1, 1, -1}).detach().requires_grad_();
    const Tensor output = block().complete(frame.tokens.narrow(1, 0, 1), mixed);
    const Tensor logits = model_->forward_head(model_->forward_norm(output));
    return torch::autograd::grad({logits[0][index]}, {mixed})[0].view_as(y);
  }

 private:
  [[nodiscard]] model::BlockImpl& block() const { return model_->block(kLast); }

  mutable model::VisionTransformer model_;
  std::vector<Frame> frames_;
};

struct Case {
  std::string attention;
  std::string memory;
  std::vector<std::string> settings;
  std::size_t most_earlier;  ///< frames that a twin gets
  FrameTwin twin;
};

std::vector<Case> cases() {
  return {{"softmax", "xl", {"xl.frames=2", "xl.decay=0.3"}, 2, softmax_over_frames(0.3)},
          {"softmax", "compressive", {"compressive.compressed=0"}, 1, softmax_over_frames(0)},
          {"elu", "state", {}, 9, linear_over_frames(0.7, elu_plus_one, 1e-6)},
          {"exp",
           "state",
           {"state.lambda=0.9"},
           9,
           linear_over_frames(
               0.9, [](const Tensor& x) { return x.exp(); }, 0)},
          {"hydra", "state", {"state.lambda=0.5"}, 9, hydra_over_frames(0.5)}};
}

constexpr double kNear = 1e-5;

/// The parts have the sums of `heat` (H, M), own tokens first, by heads or not.
void expect_parts(const Explanation& found, const Tensor& heat, std::int64_t num_tokens) {
  const bool is_mean = found.request.method == Method::attention;
  Tensor wanted = heat;
  if (!found.request.per_head) wanted = is_mean ? heat.mean(0) : heat.sum(0);
  const Tensor own = wanted.narrow(-1, 0, num_tokens);
  const Tensor earlier = wanted.slice(-1, num_tokens).sum(-1);
  EXPECT_LT(relative_to_largest(all_heat(found), own), kNear);
  const double size = wanted.abs().sum().item<double>();
  EXPECT_TRUE(all_near(found.earlier, earlier, kNear * size));
  EXPECT_NEAR(found.total, wanted.sum().item<double>(), kNear * size);
}

TEST(RememberedRowsTest, AgreeWithTwinsThatHoldAllFrames) {
  for (const auto& [attention, memory, settings, most_earlier, twin] : cases()) {
    SCOPED_TRACE(attention + " " + memory);
    const Video video(small_config(attention), 4);
    std::vector<Request> requests{
        {Method::hydra, kLast, 3}, {Method::hydra, kLast, 8, true}, {Method::hydra, kLast, 8}};
    if (attention != "hydra") {
      requests.push_back({Method::attention, kLast});
      requests.push_back({Method::attention, kLast, 0, true});
    }
    Explainer explainer = video.explainer(requests, memory, settings);
    const std::int64_t num_tokens = video.grid().num_tokens();
    std::vector<Frame> newest_first;
    for (const Frame& frame : video.frames()) {
      SCOPED_TRACE("frame " + std::to_string(newest_first.size()));
      newest_first.insert(newest_first.begin(), frame);
      if (newest_first.size() > most_earlier + 1) newest_first.pop_back();
      const Tensor weights = twin(newest_first).select(1, 0);          // of the class token
      const Tensor contributions = weights * values_of(newest_first);  // (H, d, M)
      for (const Explanation& found : video.explain(explainer, frame, requests)) {
        if (found.request.method == Method::attention) {
          expect_parts(found, weights.select(1, 0), num_tokens);
          continue;
        }
        const Tensor g = video.gradient(frame, contributions.sum(-1), found.request.class_index);
        expect_parts(found, (contributions * g.unsqueeze(-1)).sum(1), num_tokens);
      }
    }
  }
}

/// The share of the only request, frame by frame.
std::vector<double> shares(const Video& video, const Request& request, const std::string& memory,
                           const std::vector<const Frame*>& frames) {
  const std::vector<Request> requests{request};
  Explainer explainer = video.explainer(requests, memory);
  std::vector<double> list;
  for (const Frame* frame : frames) {
    const Explanation found = video.explain(explainer, *frame, requests).front();
    const double earlier = found.earlier.item<double>();
    list.push_back(memory_share(found.total - earlier, earlier));
  }
  return list;
}

TEST(RememberedRowsTest, OfAStillVideoTheShareIsThatOfTheFramesWeights) {
  for (const auto& [attention, memory] :
       {std::pair{"softmax", "xl"}, {"elu", "state"}, {"hydra", "state"}}) {
    const Video video(small_config(attention), 1);
    const Frame& still = video.frames().front();
    for (const Method method : {Method::attention, Method::hydra}) {
      if (method == Method::attention && std::string(attention) == "hydra") continue;
      SCOPED_TRACE(std::string(attention) + (method == Method::hydra ? " hydra" : " attention"));
      const std::vector<double> found =
          shares(video, {method, kLast, 3}, memory, {&still, &still, &still, &still});
      EXPECT_EQ(found[0], 0);
      double weights = 1;  // of this frame and all before it, whose own weight is 1
      for (std::size_t t = 1; t < found.size(); ++t) {
        weights = 1 + 0.7 * weights;
        EXPECT_NEAR(found[t], std::string(memory) == "xl" ? 0.5 : 1 - 1 / weights, kNear) << t;
      }
    }
  }
}

TEST(RememberedRowsTest, AFirstFrameIsAPicture) {
  for (const auto& [attention, memory, settings, most_earlier, twin] : cases()) {
    SCOPED_TRACE(attention + " " + memory);
    const Video video(small_config(attention), 2);
    const std::vector<Request> requests{{Method::hydra, kLast, 3, true}};
    Explainer alone = video.explainer(requests, "");
    const Explanation picture = video.explain(alone, video.frames()[0], requests).front();
    EXPECT_FALSE(picture.earlier.defined());
    Explainer explainer = video.explainer(requests, memory, settings);
    for (int round = 0; round < 2; ++round) {
      const Explanation first = video.explain(explainer, video.frames()[0], requests).front();
      EXPECT_LT(relative_to_largest(all_heat(first), all_heat(picture).to(at::kDouble)), kNear);
      EXPECT_TRUE(at::equal(first.earlier, at::zeros({3})));
      const Explanation second = video.explain(explainer, video.frames()[1], requests).front();
      EXPECT_GT(second.earlier.abs().min().item<double>(), 0);
      explainer.forget();
    }
  }
}

TEST(RememberedRowsTest, ALayerWithoutAMemoryHasNoShare) {
  const Video video(small_config("softmax"), 2);
  const std::vector<Request> requests{{Method::attention, kLast, 0, true}};
  Explainer alone = video.explainer(requests, "");
  Explainer explainer = video.explainer(requests, "xl:0-1");
  for (const Frame& frame : video.frames()) {
    const Explanation found = video.explain(explainer, frame, requests).front();
    EXPECT_TRUE(
        at::equal(all_heat(found), all_heat(video.explain(alone, frame, requests).front())));
    EXPECT_TRUE(at::equal(found.earlier, at::zeros({3})));
  }
}

TEST(RememberedRowsTest, APartIsAShareOfBoth) {
  EXPECT_EQ(memory_share(3, 1), 0.25);
  EXPECT_EQ(memory_share(-3, 1), 0.25);
  EXPECT_EQ(memory_share(0, -2), 1);
  EXPECT_EQ(memory_share(0, 0), 0);
}

TEST(RememberedRowsTest, OtherMapsAreRefused) {
  const Video video(small_config("softmax"), 0);
  for (const Request& request : {Request{Method::rollout, kLast},
                                 {Method::grad_rollout, kLast},
                                 {Method::gradcam, kLast},
                                 {Method::attn_gradcam, kLast},
                                 {Method::hydra, 1}})
    EXPECT_ERROR(video.explainer({request}, "xl"), invalid_argument, "several layers");
  VitConfig pooled = small_config("softmax");
  pooled.global_pool = model::Pooling::avg;
  EXPECT_ERROR(Video(pooled, 0).explainer({{Method::attention, kLast}}, "xl"), invalid_argument,
               "pools its patches");
  VitConfig normed = small_config("hydra");
  model::apply_attention_option("hydra.post_norm=on", normed.attention);
  EXPECT_ERROR(Video(normed, 0).explainer({{Method::hydra, kLast}}, "state"), invalid_argument,
               "`post_norm`");
}

}  // namespace remembered_rows_test
}  // namespace hydrascope::testing
