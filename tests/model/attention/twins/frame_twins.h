// Mixers with a memory over frames as sums over the tokens of all frames, in double: the weights of these
// tokens in each feature of the newest frame's outputs.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace hydrascope::testing {

struct Frame {
  at::Tensor tokens;   ///< (1, N, D), which enter the block; may be undefined
  at::Tensor q, k, v;  ///< (H, N, d)
};

/// (H, N, d, M), M the tokens of the frame and then of earlier frames, given the newest first.
using FrameTwin = std::function<at::Tensor(const std::vector<Frame>& newest_first)>;

/// Softmax attention whose scores lose `decay` for each frame of age.
inline FrameTwin softmax_over_frames(double decay) {
  return [decay](const std::vector<Frame>& frames) {
    const at::Tensor& q = frames.front().q;
    std::vector<at::Tensor> scores;
    for (std::size_t age = 0; age < frames.size(); ++age)
      scores.push_back(q.matmul(frames[age].k.mT()) / std::sqrt(q.size(2)) -
                       decay * static_cast<double>(age));
    return at::cat(scores, 2).softmax(2).unsqueeze(2).expand({-1, -1, q.size(2), -1});
  };
}

/// Linear attention, keys of age a weighted by lambda^a.
inline FrameTwin linear_over_frames(double lambda,
                                    const std::function<at::Tensor(const at::Tensor&)>& phi,
                                    double eps) {
  return [=](const std::vector<Frame>& frames) {
    const at::Tensor& q = frames.front().q;
    std::vector<at::Tensor> products;
    double weights = 0;
    for (std::size_t age = 0; age < frames.size(); ++age) {
      const double weight = std::pow(lambda, age);
      products.push_back(weight * phi(q).matmul(phi(frames[age].k).mT()));
      weights += weight;
    }
    const at::Tensor all = at::cat(products, 2);
    const at::Tensor rows = all / (all.sum(2, /*keepdim=*/true) + eps * weights);
    return rows.unsqueeze(2).expand({-1, -1, q.size(2), -1});
  };
}

/// Hydra whose global vector is the weighted mean of the frames'.
inline FrameTwin hydra_over_frames(double lambda) {
  return [=](const std::vector<Frame>& frames) {
    const auto unit = [](const at::Tensor& x) {  // by the norm of all features
      return x / x.square().sum(0, true).sum(2, true).sqrt();
    };
    const at::Tensor q = unit(frames.front().q).unsqueeze(3);
    std::vector<at::Tensor> rows;
    double weights = 0;
    for (std::size_t age = 0; age < frames.size(); ++age) {
      rows.push_back(std::pow(lambda, age) * q * unit(frames[age].k).mT().unsqueeze(1));
      weights += std::pow(lambda, age);
    }
    return at::cat(rows, 3) / weights;
  };
}

inline at::Tensor elu_plus_one(const at::Tensor& x) { return at::where(x > 0, x + 1, x.exp()); }

/// The values (H, d, M) of all tokens.
inline at::Tensor values_of(const std::vector<Frame>& newest_first) {
  std::vector<at::Tensor> all;
  for (const Frame& frame : newest_first) all.push_back(frame.v);
  return at::cat(all, 1).mT();
}

}  // namespace hydrascope::testing
