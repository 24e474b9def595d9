#include "model/attention/local_term.h"

#include "model/attention/attention.h"
#include "model/attention/local_convolution.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/attention/sparse/window_pattern.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// What `local=` names: at most one of the two is above zero.
struct LocalTerm {
  std::int64_t convolution = 0;  ///< edge of its neighbourhood
  std::int64_t window = 0;       ///< edge of a window, at most
};

const ChoiceOption<LocalTerm>& local_option() {
  static const ChoiceOption<LocalTerm> option(
      "local",
      {{"none", {}},
       {"conv3", {.convolution = 3}},
       {"conv5", {.convolution = 5}},
       {"conv7", {.convolution = 7}},
       {"window7", {.window = 7}}},
      "add a depthwise convolution of the values, of 3x3, 5x5 or 7x7 patches, or softmax attention "
      "within windows of 7x7");
  return option;
}

std::vector<HeadPattern> window_patterns(const LocalTerm& local, std::int64_t num_heads) {
  std::vector<HeadPattern> heads;
  heads.push_back({num_heads, window_pattern({local.window, local.window})});
  return heads;
}

/// The convolution of the values by itself; it has no map.
class ConvolutionMixer final : public TokenMixer {
 public:
  explicit ConvolutionMixer(Tensor weight) : weight_(std::move(weight)) {}

  Tensor mix(const Tensor&, const Tensor&, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    const Tensor values = to_compute_type(merge_heads(v));
    return kernels == Kernels::reference
               ? local_convolution_reference(values, weight_of(values), grid)
               : local_convolution(values, weight_of(values), grid);
  }
  Tensor attention_rows(const Tensor&, const Tensor&, const TokenGrid&, std::int64_t,
                        std::int64_t) override {
    return {};
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    return mix(q, k, v, grid, Kernels::fused).narrow(1, first, count);
  }
  Tensor weighted_rows(const Tensor&, const Tensor&, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    const Tensor values = to_compute_type(merge_heads(v));
    Tensor rows = at::zeros({g.size(0), v.size(1), count, v.size(2)}, values.options());
    for (std::int64_t i = 0; i < count; ++i) {
      const Tensor of_row = g.narrow(1, i, 1).to(values.scalar_type());
      for (const Neighbours& near : neighbours_of(first + i, weight_of(values), grid)) {
        const Tensor given = of_row * values.narrow(1, near.token, near.count()) * near.weights;
        rows.select(2, i)
            .narrow(2, near.token, near.count())
            .add_(split_heads(given, v.size(1)).sum(-1));
      }
    }
    return rows;
  }
  [[nodiscard]] Tensor local_weight() const override { return weight_; }

 private:
  /// A model of a half type has its weights in that type.
  [[nodiscard]] Tensor weight_of(const Tensor& values) const {
    return weight_.to(values.scalar_type());
  }

  Tensor weight_;
};

/// A mechanism and its local term.
class SumMixer final : public TokenMixer {
 public:
  SumMixer(std::unique_ptr<TokenMixer> global, std::unique_ptr<TokenMixer> local)
      : global_(std::move(global)), local_(std::move(local)) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    return (global_->mix(q, k, v, grid, kernels) + local_->mix(q, k, v, grid, kernels))
        .to(v.scalar_type());
  }
  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    return global_->attention_rows(q, k, grid, first, count);
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    return (global_->mix_rows(q, k, v, grid, first, count) +
            local_->mix_rows(q, k, v, grid, first, count))
        .to(v.scalar_type());
  }
  Tensor weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    return global_->weighted_rows(q, k, v, g, grid, first, count) +
           local_->weighted_rows(q, k, v, g, grid, first, count);
  }
  [[nodiscard]] bool needs_all_queries() const override { return global_->needs_all_queries(); }
  /// Windows are fused beside Hydra alone.
  [[nodiscard]] FusedMixing fused() const override {
    FusedMixing fused = global_->fused();
    const std::optional<FusedWindow> window = window_of(local_->fused());
    if (!window) return fused;
    auto* hydra = std::get_if<FusedHydra>(&fused);
    if (hydra == nullptr) return {};
    hydra->window = window;
    return fused;
  }
  [[nodiscard]] double query_scale(const TokenGrid& grid) const override {
    return global_->query_scale(grid);
  }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const override {
    return global_->token_weights(grid);
  }
  [[nodiscard]] PrefixWeighing prefix_weighing(const TokenGrid& grid) const override {
    return local_->prefix_weighing(grid);
  }
  [[nodiscard]] Tensor local_weight() const override { return local_->local_weight(); }
  [[nodiscard]] const TokenMixer& global_part() const override { return *global_; }

 private:
  std::unique_ptr<TokenMixer> global_;
  std::unique_ptr<TokenMixer> local_;
};

std::unique_ptr<TokenMixer> make_local(const LocalTerm& local,
                                       const TokenMixerArguments& arguments) {
  if (local.window > 0) {
    return std::make_unique<SparseSoftmaxMixer>(window_patterns(local, arguments.num_heads),
                                                arguments, PrefixRows::scaled,
                                                GridExtent{local.window, local.window});
  }
  const std::int64_t dim = arguments.num_heads * arguments.head_dim;
  return std::make_unique<ConvolutionMixer>(arguments.add_parameter(
      "local.weight", at::zeros({dim, local.convolution, local.convolution})));
}

}  // namespace

MechanismEntry with_local_term(MechanismEntry entry) {
  entry.options.push_back(local_option());
  entry.parameters.push_back({"local.weight", "(D, s, s), with local=conv<s>", "zeros"});
  entry.cost = [cost = std::move(entry.cost)](const MixerSize& size,
                                              const MechanismOptions& options) {
    MixerCost sum = cost(size, options);
    const LocalTerm local = local_option()(options);
    const auto taps = static_cast<double>(local.convolution * local.convolution);
    sum.flops += 2 * taps * static_cast<double>(size.grid.num_image_tokens() * size.embed_dim);
    sum.bytes += 4 * taps * static_cast<double>(size.embed_dim);
    // Queries, keys and values are in the mechanism's bytes.
    if (local.window > 0)
      sum.flops += sparse_cost(size, window_patterns(local, size.num_heads)).flops;
    return sum;
  };
  entry.added_elements = [added = std::move(entry.added_elements)](
                             const MixerSize& size, const MechanismOptions& options) {
    const double own = added ? added(size, options) : 0;
    const std::int64_t edge = local_option()(options).convolution;
    return own + static_cast<double>(size.embed_dim * edge * edge);
  };
  entry.make = [make = std::move(entry.make)](
                   const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
    std::unique_ptr<TokenMixer> mixer = make(arguments);
    const LocalTerm& local = local_option()(arguments.options);
    if (local.convolution == 0 && local.window == 0) return mixer;
    return std::make_unique<SumMixer>(std::move(mixer), make_local(local, arguments));
  };
  return entry;
}

}  // namespace hydrascope::model
