// A token mixer outside of a model, the inputs it is tried on and the variants of each registry
// entry.
#pragma once

#include "model/attention/attention.h"
#include "model/registry/mechanisms.h"
#include "model/registry/positions.h"
#include "tests/model/attention/contributions.h"
#include "tests/model/attention/twins/twins.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::testing {

/// "hydra phi_q=sigmoid"
std::string describe(const model::AttentionSpec& spec);

/// Default options, then every other choice and another number of each option, one at a time, then
/// combinations that one option alone cannot show.
std::vector<model::AttentionSpec> variants(const model::MechanismEntry& entry);

/// The map is the mechanism's alone, and the grid is part of the function.
bool has_local_term(const model::AttentionSpec& spec);

struct HeadShape {
  std::int64_t num_heads = 3;
  std::int64_t head_dim = 8;
};

/// q, k, v (B, H, N, d): views of one (B, N, 3, H, d) tensor, as the qkv projection leaves them.
struct Tokens {
  at::Tensor q, k, v;
  [[nodiscard]] Tokens to(at::ScalarType type) const {
    return {q.to(type), k.to(type), v.to(type)};
  }
  [[nodiscard]] Tokens to(at::Device device) const {
    return {q.to(device), k.to(device), v.to(device)};
  }
  /// Images first .. first + count.
  [[nodiscard]] Tokens images(std::int64_t first, std::int64_t count) const;
  /// Tokens in the order of `index`.
  [[nodiscard]] Tokens tokens(const at::Tensor& index) const;
  [[nodiscard]] Tokens leaves() const;
};
Tokens split_qkv(const at::Tensor& qkv);
/// Standard normal.
Tokens random_tokens(std::int64_t batch, std::int64_t num_tokens, const HeadShape& shape,
                     at::ScalarType type = at::kFloat);

/// One image, one head, one token per row: (1, 1, N, d) of double.
at::Tensor one_head(const std::vector<std::vector<double>>& rows);

/// max |actual - expected| / max |expected|; NaN where either has one.
double relative_error(const at::Tensor& actual, const at::Tensor& expected);
/// |actual - expected| / |expected|, L2 norms.
double relative_l2(const at::Tensor& actual, const at::Tensor& expected);

class MixerUnderTest {
 public:
  /// Trained parameters are moved away from their initial values, which hide errors (identities,
  /// ones, zeros).
  MixerUnderTest(const model::AttentionSpec& spec, const model::TokenGrid& training_grid,
                 const HeadShape& shape = {}, const model::PositionSpec& rule = {});

  [[nodiscard]] at::Tensor mix(const Tokens& tokens, const model::TokenGrid& grid,
                               model::Kernels kernels = model::Kernels::fused) const {
    return mixer_->mix(tokens.q, tokens.k, tokens.v, grid, kernels);
  }
  /// The whole map, (B, H, N, N).
  [[nodiscard]] at::Tensor map(const Tokens& tokens, const model::TokenGrid& grid) const {
    return mixer_->attention_rows(tokens.q, tokens.k, grid, 0, grid.num_tokens());
  }
  [[nodiscard]] at::Tensor contributions(const Tokens& tokens, const model::TokenGrid& grid,
                                         std::int64_t query) const {
    return testing::contributions(*mixer_, tokens.q, tokens.k, tokens.v, grid, query);
  }
  /// The twin's output, in double, or the output of the mixer's plain form without a twin; differentiable.
  [[nodiscard]] at::Tensor twin(const Tokens& tokens, const model::TokenGrid& grid) const;

  [[nodiscard]] model::TokenMixer& mixer() const { return *mixer_; }
  [[nodiscard]] torch::nn::Module& owner() const { return *owner_; }
  /// A parameter or buffer; throws std::out_of_range.
  [[nodiscard]] at::Tensor tensor(const std::string& name) const;
  void set(const std::string& name, const at::Tensor& value) const;
  /// Learned feature maps become u = x.
  void set_identity_maps() const;
  /// Computes in double from now on.
  void make_exact() const { owner_->to(at::kDouble); }

 private:
  model::AttentionSpec spec_;
  model::TokenGrid training_grid_;
  std::shared_ptr<torch::nn::Module> owner_;
  std::unique_ptr<model::TokenMixer> mixer_;
};

/// A mixer in double precision whose learned maps are identities, for examples done by hand.
MixerUnderTest plain_mixer(const model::AttentionSpec& spec, const model::TokenGrid& grid,
                           const HeadShape& shape = {});

/// A specification in one line: spec_of("hydra", {{"scale", "none"}}).
model::AttentionSpec spec_of(const std::string& mechanism,
                             std::map<std::string, std::string> options = {});

}  // namespace hydrascope::testing
