#include "model/attention/post_norm.h"

#include <ATen/ATen.h>

#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

constexpr double kNormEps = 1e-6;  // as in the blocks' norms

class PostNormMixer final : public TokenMixer {
 public:
  PostNormMixer(std::unique_ptr<TokenMixer> mixer, const TokenMixerArguments& arguments)
      : mixer_(std::move(mixer)) {
    const std::int64_t dim = arguments.num_heads * arguments.head_dim;
    weight_ = arguments.add_parameter("post_norm.weight", at::ones({dim}));
    bias_ = arguments.add_parameter("post_norm.bias", at::zeros({dim}));
  }

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    return normed(mixer_->mix(q, k, v, grid, kernels)).to(v.scalar_type());
  }
  /// Undefined: every feature of the output depends on all features of the values.
  Tensor attention_rows(const Tensor&, const Tensor&, const TokenGrid&, std::int64_t,
                        std::int64_t) override {
    return {};
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    return normed(mixer_->mix_rows(q, k, v, grid, first, count)).to(v.scalar_type());
  }
  Tensor mix_state(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   const std::function<void(MixerState&)>& change) override {
    return normed(mixer_->mix_state(q, k, v, grid, change)).to(v.scalar_type());
  }
  /// With the row's deviation s held fixed g . (w (y - mean y) / s + b) is linear in y: each token
  /// gets the part of its share of y; the part of b is split evenly among all tokens.
  Tensor weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    const Tensor y = to_compute_type(mixer_->mix_rows(q, k, v, grid, first, count));
    const Tensor deviation = (y.var(-1, /*unbiased=*/false, /*keepdim=*/true) + kNormEps).sqrt();
    const Tensor of_norm = g.to(y.scalar_type()) * weight_.to(y.scalar_type());
    const Tensor of_mixer = (of_norm - of_norm.mean(-1, true)) / deviation;
    const Tensor of_bias =
        split_heads(g.to(y.scalar_type()) * bias_.to(y.scalar_type()), v.size(1)).sum(-1, true);
    const Tensor parts = mixer_->weighted_rows(q, k, v, of_mixer, grid, first, count);
    return parts + of_bias / static_cast<double>(grid.num_tokens());
  }
  [[nodiscard]] bool needs_all_queries() const override { return mixer_->needs_all_queries(); }

 private:
  [[nodiscard]] Tensor normed(const Tensor& y) const {
    const Tensor x = to_compute_type(y);
    return at::layer_norm(x, {x.size(-1)}, weight_.to(x.scalar_type()), bias_.to(x.scalar_type()),
                          kNormEps);
  }

  std::unique_ptr<TokenMixer> mixer_;
  Tensor weight_;  ///< (D)
  Tensor bias_;    ///< (D)
};

}  // namespace

std::unique_ptr<TokenMixer> with_post_norm(std::unique_ptr<TokenMixer> mixer,
                                           const TokenMixerArguments& arguments) {
  return std::make_unique<PostNormMixer>(std::move(mixer), arguments);
}

}  // namespace hydrascope::model
