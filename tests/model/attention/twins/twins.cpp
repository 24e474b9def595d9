#include "tests/model/attention/twins/twin_problem.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;

constexpr double kEps = 1e-6;

Tensor whole_tokens(const Tensor& x) { return side_by_side(x); }

/// y = A v of unnormalised weights (B, H, N, N); row sums get `eps` added.
Tensor average(const Problem& p, const Tensor& weights, double eps) {
  return side_by_side(at::matmul(weights / (weights.sum(-1, true) + eps), p.v));
}

/// x over its norm along the last dimension, the norm no less than `kEps`.
Tensor unit(const Tensor& x) { return x / (x * x).sum(-1, true).sqrt().clamp_min(kEps); }

/// ln N / ln N_train, where the option asks for it and the picture has more tokens.
double logit_scale(const Problem& p) {
  const auto tokens = static_cast<double>(p.num_tokens());
  const auto trained = static_cast<double>(p.training.num_tokens());
  if (p.options.text("logit_scale") == "none" || tokens <= trained) return 1;
  return std::log(tokens) / std::log(std::max(trained, 2.0));
}

// Section 2.1.
Tensor softmax(const Problem& p) {
  const Tensor scores =
      logit_scale(p) * all_pairs(p.q, p.k) / std::sqrt(static_cast<double>(p.head_dim()));
  const Tensor weights = scores.exp();
  return side_by_side(at::matmul(weights / weights.sum(-1, true), p.v));
}

// Sections 3.1 to 3.5.
Tensor elu(const Problem& p) {
  const auto phi = [](const Tensor& x) { return at::where(x > 0, x + 1, x.exp()); };
  return average(p, all_pairs(phi(p.q), phi(p.k)), kEps);
}

Tensor relu(const Problem& p) {
  return average(p, all_pairs(p.q.clamp_min(0), p.k.clamp_min(0)), kEps);
}

Tensor exponential(const Problem& p) {
  const double t = p.options.number("t");
  return average(p, all_pairs((t * p.q).exp(), (t * p.k).exp()), 0);
}

Tensor one_plus_cosine(const Problem& p) {
  return average(p, 1 + all_pairs(unit(p.q), unit(p.k)), kEps);
}

Tensor taylor2(const Problem& p) {
  const Tensor s = all_pairs(p.q, p.k) / std::sqrt(static_cast<double>(p.head_dim()));
  const double second = p.options.text("polynomial") == "taylor2_raw" ? 1 : 0.5;
  return average(p, 1 + s + second * s * s, 0);
}

/// u = x W + b of section 2.3, head by head.
Tensor learned_network(const Problem& p, const Tensor& x, const std::string& side) {
  const std::string prefix =
      p.options.on("share_qk") ? "feature_map." : "feature_map." + side + ".";
  const Tensor& weight = p.parameters.at(prefix + "weight");
  std::vector<Tensor> heads;
  for (std::int64_t h = 0; h < p.num_heads(); ++h) {
    const bool own = p.options.on("per_head");
    Tensor u = at::matmul(x.select(1, h), own ? weight[h] : weight);
    if (p.options.on("bias")) {
      const Tensor& bias = p.parameters.at(prefix + "bias");
      u = u + (own ? bias[h] : bias);
    }
    heads.push_back(u);
  }
  return at::stack(heads, 1);
}

Tensor t2r(const Problem& p) {
  return average(p,
                 all_pairs(learned_network(p, p.q, "q").clamp_min(0),
                           learned_network(p, p.k, "k").clamp_min(0)),
                 kEps);
}

// Section 2.3, the table of variants.
Tensor hedgehog_features(const std::string& variant, const Tensor& u) {
  if (variant == "exp_pos") return u.exp();
  if (variant == "exp") return at::cat({u.exp(), (-u).exp()}, -1);
  if (variant == "softmax2") return at::cat({at::softmax(u, -1), at::softmax(-u, -1)}, -1);
  if (variant == "softmax1") return at::softmax(at::cat({2 * u, -2 * u}, -1), -1);
  if (variant == "expdim") {
    return at::cat({(u - u.amax(-1, true)).exp(), (-u + u.amin(-1, true)).exp()}, -1);
  }
  throw std::out_of_range("hedgehog variant " + variant);
}

Tensor hedgehog(const Problem& p) {
  const std::string& variant = p.options.text("variant");
  return average(p,
                 all_pairs(hedgehog_features(variant, learned_network(p, p.q, "q")),
                           hedgehog_features(variant, learned_network(p, p.k, "k"))),
                 0);
}

// Section 3.7.
Tensor performer(const Problem& p) {
  const Tensor& w = p.parameters.at("feature_map.projection");  // (M, d)
  const bool both_signs = p.options.text("variant") == "hyp";
  const auto features = [&](const Tensor& tokens) {
    const Tensor x = tokens * std::pow(static_cast<double>(p.head_dim()), -0.25);
    const Tensor wx = all_pairs(x, w);
    const Tensor damping = (-(x * x).sum(-1, true) / 2).exp();
    return both_signs ? at::cat({wx.exp(), (-wx).exp()}, -1) * damping : wx.exp() * damping;
  };
  return average(p, all_pairs(features(p.q), features(p.k)), 0);
}

// Section 3.8.
Tensor rfa(const Problem& p) {
  const Tensor w = p.parameters.at("feature_map.projection") / p.options.number("sigma");
  // sin a sin b + cos a cos b = cos(a - b), averaged over the directions.
  const Tensor of_q = all_pairs(unit(p.q), w);
  const Tensor of_k = all_pairs(unit(p.k), w);
  const Tensor weights = (all_pairs(of_q.sin(), of_k.sin()) + all_pairs(of_q.cos(), of_k.cos())) /
                         static_cast<double>(w.size(0));
  const double eps = p.options.number("eps");
  const Tensor sum = weights.sum(-1, true);
  const Tensor safe = at::where(
      sum.abs() >= eps, sum, at::where(sum < 0, at::full_like(sum, -eps), at::full_like(sum, eps)));
  return side_by_side(at::matmul(weights / safe, p.v));
}

// Section 3.9: cosines of the distance between patches, 1 to and from tokens without a position.
Tensor distance_cosines(const Problem& p) {
  const auto cosine = [](std::int64_t distance, std::int64_t largest) {
    return std::cos(std::numbers::pi / 2 * static_cast<double>(distance) /
                    static_cast<double>(largest));
  };
  Tensor factors = at::ones({p.num_tokens(), p.num_tokens()}, at::kDouble);
  auto value = factors.accessor<double, 2>();
  for (std::int64_t i = 0; i < p.num_patches(); ++i) {
    for (std::int64_t j = 0; j < p.num_patches(); ++j) {
      const std::int64_t down = i / p.grid.columns - j / p.grid.columns;
      const std::int64_t right = i % p.grid.columns - j % p.grid.columns;
      value[p.grid.num_prefix + i][p.grid.num_prefix + j] =
          cosine(down, p.grid.rows) * cosine(right, p.grid.columns);
    }
  }
  return factors;
}

Tensor cosformer(const Problem& p) {
  return average(p, all_pairs(p.q.clamp_min(0), p.k.clamp_min(0)) * distance_cosines(p), kEps);
}

// Section 3.10.
Tensor efficient(const Problem& p) {
  const Tensor of_q = p.q.exp();
  const Tensor of_k = p.k.exp();
  return side_by_side(
      at::matmul(all_pairs(of_q / of_q.sum(-1, true), of_k / of_k.sum(-2, true)), p.v));
}

// Section 2.2. Weights of tokens in the sum, by the scale policy.
Tensor sum_weights(const Problem& p, double growth) {
  const std::string& policy = p.options.text("scale");
  const double tokens =
      static_cast<double>(p.training.num_tokens()) / static_cast<double>(p.num_tokens());
  Tensor weights = at::ones({p.num_tokens(), 1}, at::kDouble);
  if (policy == "linear") weights.mul_(tokens);
  if (policy == "sqrt") weights.mul_(std::sqrt(tokens));
  if (policy == "patch" && p.num_patches() > 0) {
    weights.narrow(0, p.grid.num_prefix, p.num_patches())
        .mul_(static_cast<double>(p.training.rows * p.training.columns) /
              static_cast<double>(p.num_patches()));
  }
  return weights.pow(growth);
}

/// The power of N with which a sum over tokens grows: phi = x / sqrt(N) takes half of it, a softmax
/// over the tokens all of it.
double growth_of(const Problem& p) {
  double growth = 1;
  for (const char* side : {"phi_q", "phi_k"}) {
    const std::string& phi = p.options.text(side);
    if (phi == "mean") growth -= 0.5;
    if (phi == "softmax_token") growth -= 1;
  }
  return std::max(growth, 0.0);
}

Tensor safe_norm(const Problem& p, const Tensor& norm) {
  const std::string& policy = p.options.text("eps_policy");
  const double eps = p.options.number("eps");
  if (policy == "max") return norm.clamp_min(eps);
  if (policy == "rsqrt") return (norm * norm + eps * eps).sqrt();
  if (policy == "add") return norm + eps;
  throw std::out_of_range("eps policy " + policy);
}

Tensor hydra_features(const Problem& p, const std::string& kernel, const Tensor& x) {
  if (kernel == "cosine") return x / safe_norm(p, (x * x).sum(-1, true).sqrt());
  if (kernel == "l1") return x / safe_norm(p, x.abs().sum(-1, true));
  if (kernel == "mean") return x / std::sqrt(static_cast<double>(p.num_tokens()));
  if (kernel == "tanh") return 2 / (1 + (-2 * x).exp()) - 1;
  if (kernel == "sigmoid") return 1 / (1 + (-x).exp());
  if (kernel == "relu") return x.clamp_min(0);
  if (kernel == "softmax_token") return x.exp() / x.exp().sum(1, true);
  if (kernel == "softmax_feature") return x.exp() / x.exp().sum(2, true);
  throw std::out_of_range("hydra kernel " + kernel);
}

/// Every feature is a head of width one with the rank-one map a_f b_f^T.
Tensor one_head_per_feature(const Tensor& a, const Tensor& b, const Tensor& v) {
  std::vector<Tensor> features;
  for (std::int64_t f = 0; f < v.size(2); ++f) {
    const Tensor map = at::matmul(a.select(2, f).unsqueeze(2), b.select(2, f).unsqueeze(1));
    features.push_back(at::matmul(map, v.select(2, f).unsqueeze(2)).squeeze(2));
  }
  return at::stack(features, 2);
}

Tensor hydra(const Problem& p) {
  const Tensor a = hydra_features(p, p.options.text("phi_q"), whole_tokens(p.q));
  const Tensor b =
      hydra_features(p, p.options.text("phi_k"), whole_tokens(p.k)) * sum_weights(p, growth_of(p));
  const Tensor y = one_head_per_feature(a, b, whole_tokens(p.v));
  const Tensor scaled = p.options.on("feature_scale") ? y * p.parameters.at("feature_scale") : y;
  if (!p.options.on("post_norm")) return scaled;
  const Tensor centred = scaled - scaled.mean(-1, true);
  return centred / ((centred * centred).mean(-1, true) + 1e-6).sqrt() *
             p.parameters.at("post_norm.weight") +
         p.parameters.at("post_norm.bias");
}

// Section 3.13.
Tensor mla(const Problem& p) {
  const auto normalised = [&](const Tensor& x) {
    if (p.options.text("norm_scope") == "head") return unit(x);
    const Tensor norm = (x * x).sum({1, 3}, true).sqrt();
    return x / norm.clamp_min(kEps);
  };
  const Tensor map = all_pairs(normalised(p.q), normalised(p.k) * sum_weights(p, 1));
  return side_by_side(at::matmul(map, p.v));
}

// Sections 3.11 and 3.12.
Tensor aft(const Problem& p) {
  const Tensor weights = whole_tokens(p.k).exp();
  const Tensor gate = 1 / (1 + (-whole_tokens(p.q)).exp());
  return one_head_per_feature(gate, weights / weights.sum(1, true), whole_tokens(p.v));
}

Tensor polynl(const Problem& p) {
  return one_head_per_feature(whole_tokens(p.q), whole_tokens(p.k), whole_tokens(p.v)) /
         static_cast<double>(p.num_tokens());
}

const std::map<std::string, Twin, std::less<>>& twins() {
  static const std::map<std::string, Twin, std::less<>> table{{"softmax", softmax},
                                                              {"hydra", hydra},
                                                              {"hedgehog", hedgehog},
                                                              {"mla", mla},
                                                              {"elu", elu},
                                                              {"relu", relu},
                                                              {"exp", exponential},
                                                              {"cos", one_plus_cosine},
                                                              {"taylor2", taylor2},
                                                              {"t2r", t2r},
                                                              {"performer", performer},
                                                              {"rfa", rfa},
                                                              {"cosformer", cosformer},
                                                              {"efficient", efficient},
                                                              {"aft", aft},
                                                              {"polynl", polynl}};
  return table;
}

std::vector<const std::map<std::string, Twin, std::less<>>*> tables() {
  return {&twins(), &short_twins(), &sparse_twins(), &found_twins()};
}

}  // namespace

bool has_twin(std::string_view mechanism) {
  return std::ranges::any_of(tables(),
                             [&](const auto* table) { return table->contains(mechanism); });
}

at::Tensor twin(const model::AttentionSpec& spec, const at::Tensor& q, const at::Tensor& k,
                const at::Tensor& v, const model::TokenGrid& grid,
                const model::TokenGrid& training_grid, const Parameters& parameters) {
  const Problem problem{model::MechanismOptions(spec), q, k, v, grid, training_grid, parameters};
  for (const auto* table : tables()) {
    if (const auto found = table->find(spec.mechanism); found != table->end())
      return found->second(problem);
  }
  throw std::out_of_range("no twin of " + spec.mechanism);
}

}  // namespace hydrascope::testing
