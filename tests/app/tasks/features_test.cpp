#include "app/tasks/features.h"

#include "app/store/store_writer.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace features_test {

constexpr std::int64_t kDim = 5;
constexpr std::int64_t kStored = 12;
constexpr double kTemperature = 0.07;

class VoteTest : public ::testing::Test {
 protected:
  VoteTest() {
    at::manual_seed(7);
    vectors_ = at::rand({kStored, kDim});  // shares above the least that has a logarithm
    StoreWriter writer(file_, /*anew=*/true);
    std::vector<std::pair<Input, std::string>> pictures;
    for (std::int64_t i = 0; i < kStored; ++i)
      pictures.emplace_back(file_input("p" + std::to_string(i), ""),
                            std::string(1, static_cast<char>('a' + i % 3)));
    for (const Input& one :
         writer.begin({"tower", "abc", "softmax", "pooled", "resize 256", "float32"}, pictures)) {
      const at::Tensor row = vectors_[one.number].contiguous();
      writer.add(one, {row.const_data_ptr<float>(), static_cast<std::size_t>(kDim)});
    }
    writer.finish();
  }
  /// A tower that answers by the vote of `k` stored pictures with the labels a, b, c, a, ...
  [[nodiscard]] ModelSource voter(std::int64_t k) const {
    ModelSource tower;
    tower.config.embed_dim = kDim;
    tower.config.num_classes = 0;
    return voting_source(std::move(tower), std::make_shared<const VectorStore>(file_), {.k = k},
                         {});
  }
  [[nodiscard]] at::Tensor unit(std::int64_t row) const {
    return vectors_[row].to(at::kDouble) / vectors_[row].to(at::kDouble).norm();
  }

  at::Tensor vectors_;
  hydrascope::testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "s.safetensors";
};

/// The answer knows a label's logit but for a number that all labels share, and the feature's direction alone.
TEST_F(VoteTest, DifferencesOfTheAnswerFollowTheClassVectors) {
  const ModelSource source = voter(kStored);
  const at::Tensor feature = 3 * at::rand({kDim});
  const at::Tensor vectors = source.class_vectors_of(feature).to(at::kDouble);
  ASSERT_EQ(vectors.sizes(), at::IntArrayRef({3, kDim}));
  const auto logits = [&](std::int64_t place, double by) {
    at::Tensor moved = feature.clone().unsqueeze(0);
    moved[0][place] += by;
    const at::Tensor found = source.answer->answer(moved, at::empty({1, 0}))[0].to(at::kDouble);
    return found - found[0];
  };
  const double length = feature.norm().item<double>();
  const at::Tensor direction = feature.to(at::kDouble) / length;
  const double step = 2e-3 * length;
  for (std::int64_t label = 1; label < 3; ++label) {
    const at::Tensor apart = vectors[label] - vectors[0];
    const at::Tensor gradient = (apart - apart.dot(direction) * direction) / length;
    for (std::int64_t place = 0; place < kDim; ++place) {
      const at::Tensor slope = (logits(place, step) - logits(place, -step)) / (2 * step);
      EXPECT_NEAR(slope[label].item<double>(), gradient[place].item<double>(),
                  5e-3 * gradient.abs().max().item<double>())
          << "label " << label << ", place " << place;
    }
  }
}

TEST_F(VoteTest, AClassVectorIsTheGradientOfItsLogit) {
  const at::Tensor feature = at::rand({kDim});
  const at::Tensor found = voter(kStored).class_vectors_of(feature).to(at::kDouble);
  for (std::int64_t label = 0; label < 3; ++label) {
    at::Tensor x = (feature.to(at::kDouble) / feature.to(at::kDouble).norm()).requires_grad_();
    std::vector<at::Tensor> votes;
    for (std::int64_t i = label; i < kStored; i += 3)
      votes.push_back(unit(i).dot(x) / kTemperature);
    const at::Tensor logit = at::logsumexp(at::stack(votes), {0});
    const at::Tensor gradient = torch::autograd::grad({logit}, {x})[0];
    EXPECT_LT((found[label] - gradient).abs().max().item<double>(),
              1e-5 * gradient.abs().max().item<double>());
  }
}

TEST_F(VoteTest, ALabelWithoutAVoterHasNoVector) {
  const std::int64_t nearest = 4;  // of the label b
  const at::Tensor found = voter(1).class_vectors_of(2 * vectors_[nearest]).to(at::kDouble);
  EXPECT_EQ(found[0].abs().max().item<double>(), 0);
  EXPECT_LT((found[1] - unit(nearest) / kTemperature).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(found[2].abs().max().item<double>(), 0);
  // Nor is it an answer: the others' shares are 0.
  const ModelSource source = voter(1);
  const at::Tensor logits =
      source.answer->answer(vectors_[nearest].unsqueeze(0), at::empty({1, 0}))[0];
  EXPECT_NEAR(logits[1].item<double>(), 0, 1e-6);
  for (const std::int64_t other : {0, 2})
    EXPECT_LT(logits[other].item<double>(), source.least_logit);
}

TEST_F(VoteTest, AMixtureHasNoClassVectors) {
  ModelSource tower;
  tower.config.embed_dim = kDim;
  tower.config.num_classes = 3;
  const ModelSource source =
      voting_source(std::move(tower), std::make_shared<const VectorStore>(file_), {.share = 0.5},
                    image::Labels::parse("a\nb\nc\n", "three"));
  EXPECT_FALSE(source.class_vectors_of);
}

}  // namespace features_test
}  // namespace hydrascope::app
