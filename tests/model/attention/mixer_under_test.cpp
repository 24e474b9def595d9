#include "tests/model/attention/mixer_under_test.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace hydrascope::testing {
namespace {

using model::AttentionSpec;
using model::MechanismEntry;
using model::MechanismOption;

/// Thousands of tiny operations: a second thread costs more than it gives.
class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
const ::testing::Environment* const kOneThread =
    ::testing::AddGlobalTestEnvironment(new OneThread);  // GoogleTest owns it

/// Numbers that differ enough from the defaults to show, and suit all grids of the suite.
std::string other_number(const MechanismOption& option) {
  static const std::map<std::string, std::string> chosen{
      {"block", "5"},   {"bucket", "5"},        {"clusters", "4"},      {"dilated_heads", "1"},
      {"eps", "0.01"},  {"features", "24"},     {"halo", "1"},          {"identity_heads", "1"},
      {"max", "3"},     {"iterations", "9"},    {"landmarks", "9"},     {"length", "9"},
      {"penalty", "1"}, {"random_blocks", "1"}, {"window_blocks", "5"}, {"seed", "7"},
      {"sigma", "2"},   {"size", "3x4"},        {"summary", "2"},       {"t", "2"},
      {"tile", "3x4"},  {"width", "5"},         {"window", "4x3"}};
  if (const auto found = chosen.find(option.key); found != chosen.end()) return found->second;
  const double value = std::stod(option.default_value);
  const double other = std::clamp(2 * value, option.minimum, option.maximum);
  return std::to_string(static_cast<std::int64_t>(other == value ? option.minimum : other));
}

/// An eps that does nothing, a resized projection of length one image and the like need company.
const std::vector<AttentionSpec>& combinations() {
  static const std::vector<AttentionSpec> list{
      spec_of("adaptive_span", {{"max", "4x3"}, {"ramp", "1.5"}}),
      spec_of("adaptive_span", {{"max", "5"}, {"dynamic", "on"}}),
      spec_of("bigbird", {{"block", "5"}, {"window_blocks", "1"}, {"random", "head"}}),
      spec_of("blockwise", {{"tile", "4"}, {"identity_heads", "1"}}),
      spec_of("fixed", {{"block", "4x3"}, {"summary", "3"}}),
      spec_of("fixed", {{"block", "3"}, {"summary", "2"}, {"combine", "heads"}}),
      spec_of("hedgehog", {{"share_qk", "on"}, {"per_head", "off"}, {"bias", "off"}}),
      spec_of("hedgehog", {{"variant", "expdim"}, {"width", "11"}}),
      spec_of("hydra", {{"eps_policy", "rsqrt"}, {"eps", "0.5"}}),
      spec_of("hydra", {{"eps_policy", "add"}, {"eps", "0.5"}}),
      spec_of("hydra", {{"phi_q", "l1"}, {"phi_k", "l1"}, {"eps_policy", "rsqrt"}, {"eps", "0.5"}}),
      spec_of("hydra", {{"phi_q", "l1"}, {"phi_k", "l1"}, {"eps_policy", "add"}, {"eps", "0.5"}}),
      spec_of("hydra", {{"feature_scale", "on"}, {"scale", "patch"}}),
      spec_of("linformer", {{"projection", "patches"}, {"share_kv", "on"}, {"length", "9"}}),
      spec_of("hydra", {{"feature_scale", "on"}, {"post_norm", "on"}}),
      spec_of("linformer", {{"projection", "pool"}, {"length", "9"}}),
      spec_of("linformer", {{"projection", "max"}, {"length", "9"}}),
      spec_of("linformer", {{"projection", "conv"}, {"length", "9"}}),
      spec_of("linformer", {{"projection", "conv"}, {"share_kv", "on"}, {"length", "4"}}),
      spec_of("longformer", {{"window", "3x4"}, {"dilated_heads", "1"}, {"border", "shift"}}),
      spec_of("mla", {{"norm_scope", "head"}, {"scale", "patch"}}),
      spec_of("neighborhood", {{"window", "3"}, {"dilation", "2"}, {"dilated_heads", "1"}}),
      spec_of("neighborhood", {{"window", "4x5"}, {"dilation", "3"}, {"border", "clip"}}),
      spec_of("neighborhood", {{"window", "3"}, {"prefix_rows", "learned"}}),
      spec_of("reformer", {{"bucket", "4"}, {"rounds", "3"}, {"share_qk", "on"}}),
      spec_of("reformer", {{"bucket", "3"}, {"rounds", "1"}, {"seed", "3"}}),
      spec_of("routing", {{"clusters", "5"}, {"steps", "0"}, {"local_heads", "0"}}),
      spec_of("routing", {{"clusters", "3"}, {"window", "3"}}),
      spec_of("sinkhorn", {{"tile", "4x3"}, {"temperature", "0.2"}}),
      spec_of("strided", {{"combine", "heads"}, {"band", "2"}}),
      spec_of("t2r", {{"share_qk", "on"}, {"width", "11"}}),
      spec_of("window", {{"size", "4x3"}, {"shift", "alternate"}, {"halo", "2"}}),
      spec_of("window", {{"size", "3"}, {"shift", "alternate"}}),
      spec_of("window", {{"size", "3x4"}, {"order", "raster"}, {"halo", "2"}}),
  };
  return list;
}

}  // namespace

std::string describe(const AttentionSpec& spec) {
  std::string text = spec.mechanism;
  for (const auto& [key, value] : spec.options) text += " " + key + "=" + value;
  return text;
}

std::vector<AttentionSpec> variants(const MechanismEntry& entry) {
  std::vector<AttentionSpec> list{spec_of(entry.name)};
  for (const MechanismOption& option : entry.options) {
    if (option.choices.empty()) {
      list.push_back(spec_of(entry.name, {{option.key, other_number(option)}}));
      continue;
    }
    for (const std::string& choice : option.choices) {
      if (choice != option.default_value)
        list.push_back(spec_of(entry.name, {{option.key, choice}}));
    }
  }
  for (const AttentionSpec& spec : combinations()) {
    if (spec.mechanism == entry.name) list.push_back(spec);
  }
  return list;
}

bool has_local_term(const AttentionSpec& spec) {
  const auto local = spec.options.find("local");
  return local != spec.options.end() && local->second != "none";
}

AttentionSpec spec_of(const std::string& mechanism, std::map<std::string, std::string> options) {
  return {mechanism, std::move(options)};
}

Tokens Tokens::images(std::int64_t first, std::int64_t count) const {
  return {q.narrow(0, first, count), k.narrow(0, first, count), v.narrow(0, first, count)};
}

Tokens Tokens::tokens(const at::Tensor& index) const {
  return {q.index_select(2, index), k.index_select(2, index), v.index_select(2, index)};
}

Tokens Tokens::leaves() const {
  const auto leaf = [](const at::Tensor& x) { return x.detach().clone().requires_grad_(); };
  return {leaf(q), leaf(k), leaf(v)};
}

Tokens split_qkv(const at::Tensor& qkv) {
  const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
  return {parts[0], parts[1], parts[2]};
}

Tokens random_tokens(std::int64_t batch, std::int64_t num_tokens, const HeadShape& shape,
                     at::ScalarType type) {
  return split_qkv(
      at::randn({batch, num_tokens, 3, shape.num_heads, shape.head_dim}, at::kDouble).to(type));
}

at::Tensor one_head(const std::vector<std::vector<double>>& rows) {
  std::vector<at::Tensor> tokens;
  for (const std::vector<double>& row : rows) tokens.push_back(at::tensor(row, at::kDouble));
  return at::stack(tokens).unsqueeze(0).unsqueeze(0);
}

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kCPU, at::kDouble);
  const at::Tensor b = expected.detach().to(at::kCPU, at::kDouble);
  if (a.sizes() != b.sizes()) throw std::invalid_argument("relative_error: shapes differ");
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-300)).item<double>();
}

double relative_l2(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().to(at::kCPU, at::kDouble);
  const at::Tensor b = expected.detach().to(at::kCPU, at::kDouble);
  if (a.sizes() != b.sizes()) throw std::invalid_argument("relative_l2: shapes differ");
  return ((a - b).norm() / b.norm().clamp_min(1e-300)).item<double>();
}

MixerUnderTest::MixerUnderTest(const AttentionSpec& spec, const model::TokenGrid& training_grid,
                               const HeadShape& shape, const model::PositionSpec& rule)
    : spec_(spec),
      training_grid_(training_grid),
      owner_(std::make_shared<torch::nn::Module>("attn")) {
  model::TokenMixerArguments arguments{shape.num_heads, shape.head_dim, /*layer_index=*/1,
                                       /*depth=*/2,     training_grid_, spec_,
                                       *owner_};
  if (rule.rule != model::kNoRule) {
    model::TokenMixerArguments of_rule = arguments;
    of_rule.options = model::position_options(rule);
    arguments.position = model::find_position_rule(rule.rule).make(of_rule);
  }
  mixer_ = model::find_mechanism(spec_.mechanism).make(arguments);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : owner_->parameters())
    parameter.add_(at::randn(parameter.sizes()), 0.3);
}

at::Tensor MixerUnderTest::twin(const Tokens& tokens, const model::TokenGrid& grid) const {
  Parameters parameters;
  for (const auto& item : owner_->named_parameters())
    parameters[item.key()] = item.value().to(at::kCPU, at::kDouble);
  for (const auto& item : owner_->named_buffers())
    parameters[item.key()] = item.value().to(at::kCPU, at::kDouble);
  const Tokens exact = tokens.to(at::Device(at::kCPU)).to(at::kDouble);
  if (!has_twin(spec_.mechanism)) {
    const std::vector<at::Tensor> own = owner_->parameters();
    return mix(exact.to(own.empty() ? at::Device(at::kCPU) : own.front().device()), grid,
               model::Kernels::reference);
  }
  const at::Tensor y =
      testing::twin(spec_, exact.q, exact.k, exact.v, grid, training_grid_, parameters);
  const auto local = spec_.options.find("local");
  if (local != spec_.options.end() && local->second == "window7") {
    const AttentionSpec window = spec_of("window", {{"size", "7"}, {"prefix_rows", "scaled"}});
    return y + testing::twin(window, exact.q, exact.k, exact.v, grid, training_grid_, {});
  }
  return y;
}

at::Tensor MixerUnderTest::tensor(const std::string& name) const {
  const auto parameters = owner_->named_parameters();
  if (const at::Tensor* found = parameters.find(name)) return *found;
  const auto buffers = owner_->named_buffers();
  if (const at::Tensor* found = buffers.find(name)) return *found;
  throw std::out_of_range("no tensor " + name);
}

void MixerUnderTest::set(const std::string& name, const at::Tensor& value) const {
  const at::NoGradGuard no_grad;
  tensor(name).copy_(value);
}

void MixerUnderTest::set_identity_maps() const {
  for (const auto& item : owner_->named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (item.key().ends_with("bias")) {
      set(item.key(), at::zeros_like(parameter));
    } else if (item.key().starts_with("feature_map.")) {
      set(item.key(), at::eye(parameter.size(-2), parameter.size(-1), parameter.options()));
    }
  }
}

MixerUnderTest plain_mixer(const AttentionSpec& spec, const model::TokenGrid& grid,
                           const HeadShape& shape) {
  MixerUnderTest mixer(spec, grid, shape);
  mixer.set_identity_maps();
  mixer.make_exact();
  return mixer;
}

}  // namespace hydrascope::testing
