#include "model/attention/local_term.h"

#include "kernels/error.h"
#include "model/attention/attention.h"
#include "model/attention/local_convolution.h"

#include <ATen/ATen.h>

#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Edge of the neighbourhood; 0: none.
std::int64_t local_size(const AttentionSpec& spec) {
  const std::string value = MechanismOptions(spec).text("local");
  return value == "none" ? 0 : value.back() - '0';
}

/// A mechanism and the convolution of its values.
class LocalTermMixer final : public TokenMixer {
 public:
  LocalTermMixer(std::unique_ptr<TokenMixer> global, Tensor weight)
      : global_(std::move(global)), weight_(std::move(weight)) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    const Tensor values = to_compute_type(merge_heads(v));
    const Tensor near = kernels == Kernels::reference
                            ? local_convolution_reference(values, weight_of(values), grid)
                            : local_convolution(values, weight_of(values), grid);
    return (global_->mix(q, k, v, grid, kernels) + near).to(v.scalar_type());
  }
  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    return global_->attention_rows(q, k, grid, first, count);
  }
  Tensor mix_rows(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                  std::int64_t first, std::int64_t count) override {
    const Tensor values = to_compute_type(merge_heads(v));
    const Tensor near = local_convolution(values, weight_of(values), grid).narrow(1, first, count);
    return (global_->mix_rows(q, k, v, grid, first, count) + near).to(v.scalar_type());
  }
  Tensor weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                       const TokenGrid& grid, std::int64_t first, std::int64_t count) override {
    Tensor rows = global_->weighted_rows(q, k, v, g, grid, first, count);
    const Tensor values = to_compute_type(merge_heads(v));
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
  Tensor contributions(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                       std::int64_t query) override {
    Tensor given = global_->contributions(q, k, v, grid, query);
    const Tensor values = to_compute_type(merge_heads(v));
    for (const Neighbours& near : neighbours_of(query, weight_of(values), grid)) {
      given.narrow(1, near.token, near.count())
          .add_(values.narrow(1, near.token, near.count()) * near.weights);
    }
    return given;
  }
  [[nodiscard]] bool needs_all_queries() const override { return global_->needs_all_queries(); }
  [[nodiscard]] FusedMixing fused() const override { return global_->fused(); }
  [[nodiscard]] double query_scale(const TokenGrid& grid) const override {
    return global_->query_scale(grid);
  }
  [[nodiscard]] TokenWeights token_weights(const TokenGrid& grid) const override {
    return global_->token_weights(grid);
  }
  [[nodiscard]] PrefixWeighing prefix_weighing(const TokenGrid& grid) const override {
    return global_->prefix_weighing(grid);
  }
  [[nodiscard]] Tensor local_weight() const override { return weight_; }
  [[nodiscard]] const TokenMixer& global_part() const override { return *global_; }

 private:
  /// A model of a half type has its weights in that type.
  [[nodiscard]] Tensor weight_of(const Tensor& values) const {
    return weight_.to(values.scalar_type());
  }

  std::unique_ptr<TokenMixer> global_;
  Tensor weight_;
};

}  // namespace

MechanismEntry with_local_term(MechanismEntry entry) {
  entry.options.push_back(choice_option("local", "none", {"none", "conv3", "conv5", "conv7"},
                                        "add a depthwise convolution of the values, of 3x3, 5x5 "
                                        "or 7x7 patches"));
  entry.parameters.push_back({"local.weight", "(D, s, s), with local=conv<s>", "zeros"});
  entry.cost = [cost = std::move(entry.cost)](const MixerSize& size, const AttentionSpec& spec) {
    MixerCost sum = cost(size, spec);
    const auto taps = static_cast<double>(local_size(spec) * local_size(spec));
    sum.flops += 2 * taps * static_cast<double>(size.grid.num_image_tokens() * size.embed_dim);
    sum.bytes += 4 * taps * static_cast<double>(size.embed_dim);
    return sum;
  };
  entry.added_elements = [added = std::move(entry.added_elements)](const MixerSize& size,
                                                                   const AttentionSpec& spec) {
    const double own = added ? added(size, spec) : 0;
    return own + static_cast<double>(size.embed_dim * local_size(spec) * local_size(spec));
  };
  entry.make = [make = std::move(entry.make)](
                   const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
    std::unique_ptr<TokenMixer> mixer = make(arguments);
    const std::int64_t size = local_size(arguments.spec);
    if (size == 0) return mixer;
    const MechanismOptions options(arguments.spec);
    if (options.all().contains("form") && options.text("form") == "causal") {
      throw Error(ErrorCode::invalid_argument,
                  "the local term looks ahead, which a causal form does not",
                  "--attn-opt " + arguments.spec.mechanism + ".local=" + options.text("local"));
    }
    const std::int64_t dim = arguments.num_heads * arguments.head_dim;
    return std::make_unique<LocalTermMixer>(
        std::move(mixer), arguments.add_parameter("local.weight", at::zeros({dim, size, size})));
  };
  return entry;
}

}  // namespace hydrascope::model
