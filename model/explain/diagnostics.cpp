#include "model/explain/diagnostics.h"

#include "kernels/error.h"
#include "model/attention/hydra_attention.h"
#include "model/explain/mixer_inputs.h"
#include "model/registry/map_methods.h"
#include "model/torch_errors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;

constexpr double kSmallestWeight = 1e-12;
constexpr std::int64_t kMostQueries = 256;
constexpr std::int64_t kRuns = 8;

std::int64_t judged_queries(std::int64_t num_tokens) { return std::min(num_tokens, kMostQueries); }

/// Calls `body(first, count)` for the runs of judged queries.
template <class Body>
void for_judged_queries(std::int64_t num_tokens, Body body) {
  if (num_tokens <= kMostQueries) return body(0, num_tokens);
  constexpr std::int64_t kCount = kMostQueries / kRuns;
  for (std::int64_t run = 0; run < kRuns; ++run)
    body(run * (num_tokens - kCount) / (kRuns - 1), kCount);
}

bool rows_are_distributions(const MechanismEntry& mechanism) {
  return mechanism.has_map && mechanism.non_negative && mechanism.rows_sum_to_one;
}

Tensor log_weights(const Tensor& rows) { return rows.clamp_min(kSmallestWeight).log(); }

/// KL(p || q) of distributions over the last dimension, given q's logarithms.
Tensor divergence(const Tensor& p, const Tensor& log_q) {
  return (p * (log_weights(p) - log_q)).sum(-1);
}

/// Sums by head over the judged queries.
class HeadSums {
 public:
  explicit HeadSums(std::int64_t num_heads)
      : sums_(at::zeros({num_heads}, at::kDouble)), counts_(at::zeros({num_heads}, at::kDouble)) {}

  /// values: (1, H, n); numbers that are not finite are left out.
  void add(const Tensor& values) {
    const Tensor found = values.squeeze(0).to(at::kCPU, at::kDouble);
    const Tensor finite = found.isfinite();
    sums_ += at::where(finite, found, 0.0).sum(-1);
    counts_ += finite.to(at::kDouble).sum(-1);
  }
  /// (H); NaN for a head without a number.
  [[nodiscard]] Tensor mean() const { return sums_ / counts_; }
  [[nodiscard]] const Tensor& sum() const noexcept { return sums_; }

 private:
  Tensor sums_;
  Tensor counts_;
};

/// The numbers of a layer, NaN until they are set.
class Numbers {
 public:
  explicit Numbers(std::int64_t num_heads)
      : all_(at::full({num_heads + 1, static_cast<std::int64_t>(diagnostics().size())},
                      std::numeric_limits<double>::quiet_NaN(), at::kDouble)) {}

  /// by_head: (H); the layer's is their mean.
  void set(Diagnostic diagnostic, const Tensor& by_head) {
    set(diagnostic, by_head, by_head.nanmean().item<double>());
  }
  void set(Diagnostic diagnostic, const Tensor& by_head, double of_layer) {
    Tensor column = all_.select(1, static_cast<std::int64_t>(diagnostic));
    column.narrow(0, 0, by_head.size(0)).copy_(by_head);
    column[by_head.size(0)] = of_layer;
  }
  [[nodiscard]] const Tensor& all() const noexcept { return all_; }

 private:
  Tensor all_;
};

/// One layer's mixer and its inputs.
struct MixedTokens {
  TokenMixer& mixer;
  const TokenGrid& grid;
  MixerInputs inputs;

  MixedTokens(BlockImpl& block, const Tensor& tokens, const TokenGrid& of_grid)
      : mixer(block.attention().mixer()),
        grid(of_grid),
        inputs(project_tokens(block, tokens, tokens.size(1), /*with_values=*/true)) {}

  [[nodiscard]] std::int64_t num_heads() const { return inputs.q.size(1); }
  /// (1, H, count, N); undefined without a map.
  [[nodiscard]] Tensor rows(std::int64_t first, std::int64_t count) const {
    return mixer.attention_rows(inputs.q, inputs.k, grid, first, count);
  }
  /// (1, H, count, d)
  [[nodiscard]] Tensor output(const Tensor& rows, std::int64_t first, std::int64_t count) const {
    if (rows.defined() && mixer.position() == nullptr) return rows.matmul(inputs.v);
    return split_heads(mixer.mix_rows(inputs.q, inputs.k, inputs.v, grid, first, count),
                       num_heads());
  }
  /// s, (1, H, count, N)
  [[nodiscard]] Tensor products(std::int64_t first, std::int64_t count) const {
    if (const PositionRule* rule = mixer.position())
      return rule->score_rows(inputs.q.narrow(2, first, count), inputs.k, grid, first);
    const double scale = 1 / std::sqrt(static_cast<double>(inputs.q.size(-1)));
    return (inputs.q.narrow(2, first, count) * scale).matmul(inputs.k.transpose(-2, -1));
  }
};

/// softmax (1, H, n, N), rows of tokens from `first` on -> (1, H, patches among them).
Tensor near_mass(const Tensor& softmax, const TokenGrid& grid, std::int64_t first,
                 const TokenGrid& training) {
  const std::int64_t end = grid.num_prefix + grid.num_patches();
  const std::int64_t begin = std::max(first, grid.num_prefix);
  const std::int64_t count =
      std::max<std::int64_t>(0, std::min(end, first + softmax.size(2)) - begin);
  const auto rows_of = [&](const Tensor& patch) { return patch.div(grid.columns, "floor"); };
  const Tensor query =
      at::arange(begin, begin + count, softmax.options().dtype(at::kLong)) - grid.num_prefix;
  const Tensor key = at::arange(grid.num_patches(), query.options());
  const auto are_near = [](const Tensor& a, const Tensor& b, std::int64_t training_length) {
    return (a.unsqueeze(1) - b).abs() <= training_length / 4;
  };
  const Tensor near = are_near(rows_of(query), rows_of(key), training.rows)
                          .logical_and(are_near(query.remainder(grid.columns),
                                                key.remainder(grid.columns), training.columns));
  const Tensor of_patches = softmax.narrow(2, std::min(begin - first, softmax.size(2)), count);
  return of_patches.narrow(3, 0, grid.num_prefix).sum(-1) +
         (of_patches.narrow(3, grid.num_prefix, grid.num_patches()) * near).sum(-1);
}

void diagnose_global_vector(const HydraMixer& mixer, const MixedTokens& mixed, Numbers& numbers) {
  const Tensor terms = split_heads(
      mixer.global_terms(mixed.inputs.k, mixed.inputs.v, mixed.grid).to(at::kCPU, at::kDouble),
      mixed.num_heads());                    // (1, H, N, d)
  const Tensor c = terms.sum(2).squeeze(0);  // (H, d)
  const Tensor first = terms.select(2, 0).squeeze(0);
  const Tensor squares = c.square().sum(-1);
  const Tensor products = (first * c).sum(-1);
  numbers.set(Diagnostic::global_norm, squares.sqrt(), squares.sum().sqrt().item<double>());
  if (mixed.grid.num_prefix > 0) {
    numbers.set(Diagnostic::class_share, products / squares,
                (products.sum() / squares.sum()).item<double>());
  }
}

/// Ranks of a row's values from 0, minus the mean of all; ties share the mean of their ranks.
class CentredRanks {
 public:
  explicit CentredRanks(std::size_t size) : order_(size), ranks_(size) {}

  /// NaN throughout if one value is NaN.
  const std::vector<double>& of(const double* values) {
    const std::size_t size = order_.size();
    if (std::any_of(values, values + size, [](double value) { return std::isnan(value); })) {
      std::ranges::fill(ranks_, std::numeric_limits<double>::quiet_NaN());
      return ranks_;
    }
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::sort(order_, {}, [&](std::size_t i) { return values[i]; });
    for (std::size_t first = 0; first < size;) {
      std::size_t end = first + 1;
      while (end < size && values[order_[end]] == values[order_[first]]) ++end;
      const double rank = 0.5 * static_cast<double>(first + end - 1);
      for (; first < end; ++first)
        ranks_[order_[first]] = rank - 0.5 * static_cast<double>(size - 1);
    }
    return ranks_;
  }

 private:
  std::vector<std::size_t> order_;
  std::vector<double> ranks_;
};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

const std::vector<DiagnosticEntry>& diagnostics() {
  static const std::vector<DiagnosticEntry> kEntries{
      {Diagnostic::entropy, "entropy", "entropy", "entropy of the attention rows, nats"},
      {Diagnostic::entropy_share, "entropy_share", "entropy / ln N",
       "the same over ln N: 0 on one token, 1 on all alike"},
      {Diagnostic::softmax_kl, "softmax_kl", "KL softmax",
       "KL(softmax rows || rows) of the same queries and keys, nats"},
      {Diagnostic::softmax_cosine, "softmax_cosine", "cos softmax",
       "cosine of the output and softmax's of the same queries, keys and values"},
      {Diagnostic::monotonicity, "monotonicity", "monotonicity",
       "Spearman's correlation of the rows and q.k / sqrt(d)"},
      {Diagnostic::near_mass, "near_mass", "near mass",
       "softmax's weight on the prefix and on patches near the query: within a window of half the "
       "training grid"},
      {Diagnostic::reference_kl, "reference_kl", "KL reference",
       "KL(the reference's rows || rows) for the reference's tokens, nats"},
      {Diagnostic::reference_cosine, "reference_cosine", "cos reference",
       "cosine of the output and the reference's for the reference's tokens"},
      {Diagnostic::reference_error, "reference_error", "error reference",
       "relative error of the output against the reference's for the reference's tokens"},
      {Diagnostic::global_norm, "global_norm", "|c|", "norm of Hydra's global vector"},
      {Diagnostic::class_share, "class_share", "class share",
       "the class token's share of Hydra's global vector"}};
  return kEntries;
}

Tensor spearman(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(at::kCPU, at::kDouble).contiguous();
  const Tensor y = b.to(at::kCPU, at::kDouble).contiguous();
  const std::int64_t size = x.size(-1);
  Tensor correlations = at::empty(x.sizes().slice(0, x.dim() - 1), at::kDouble);
  const double* const x_values = x.const_data_ptr<double>();
  const double* const y_values = y.const_data_ptr<double>();
  double* const results = correlations.mutable_data_ptr<double>();
  at::parallel_for(0, correlations.numel(), 16, [&](std::int64_t begin, std::int64_t end) {
    CentredRanks x_ranks(static_cast<std::size_t>(size));
    CentredRanks y_ranks(static_cast<std::size_t>(size));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::vector<double>& p = x_ranks.of(x_values + row * size);
      const std::vector<double>& q = y_ranks.of(y_values + row * size);
      results[row] = dot(p, q) / std::sqrt(dot(p, p) * dot(q, q));
    }
  });
  return correlations;
}

Tensor diagnose_block(const DiagnosedBlock& diagnosed, const Tensor& tokens,
                      const TokenGrid& grid) {
  const MixedTokens mixed(diagnosed.block, tokens, grid);
  const bool stochastic = rows_are_distributions(diagnosed.mechanism);
  HeadSums entropy(mixed.num_heads());
  HeadSums kl(mixed.num_heads());
  HeadSums cosine(mixed.num_heads());
  HeadSums monotonicity(mixed.num_heads());
  HeadSums near(mixed.num_heads());
  for_judged_queries(grid.num_tokens(), [&](std::int64_t first, std::int64_t count) {
    const Tensor rows = mixed.rows(first, count);
    const Tensor products = mixed.products(first, count);
    const Tensor softmax = products.softmax(-1);
    cosine.add(at::cosine_similarity(mixed.output(rows, first, count),
                                     softmax.matmul(mixed.inputs.v), -1));
    near.add(near_mass(softmax, grid, first, diagnosed.training_grid));
    if (!rows.defined()) return;
    monotonicity.add(spearman(rows, products));
    if (!stochastic) return;
    const Tensor log_rows = log_weights(rows);
    entropy.add(-(rows * log_rows).sum(-1));
    kl.add(divergence(softmax, log_rows));
  });
  Numbers numbers(mixed.num_heads());
  numbers.set(Diagnostic::entropy, entropy.mean());
  numbers.set(Diagnostic::entropy_share,
              entropy.mean() / std::log(static_cast<double>(grid.num_tokens())));
  numbers.set(Diagnostic::softmax_kl, kl.mean());
  numbers.set(Diagnostic::softmax_cosine, cosine.mean());
  numbers.set(Diagnostic::monotonicity, monotonicity.mean());
  numbers.set(Diagnostic::near_mass, near.mean());
  if (const auto* hydra = dynamic_cast<const HydraMixer*>(&mixed.mixer.global_part()))
    diagnose_global_vector(*hydra, mixed, numbers);
  return numbers.all();
}

Tensor compare_blocks(const DiagnosedBlock& diagnosed, const DiagnosedBlock& reference,
                      const Tensor& tokens, const TokenGrid& grid) {
  const MixedTokens mixed(diagnosed.block, tokens, grid);
  const MixedTokens wanted(reference.block, tokens, grid);
  const bool stochastic =
      rows_are_distributions(diagnosed.mechanism) && rows_are_distributions(reference.mechanism);
  const std::int64_t num_heads = mixed.num_heads();
  HeadSums kl(num_heads);
  HeadSums cosine(num_heads);
  HeadSums errors(num_heads);
  HeadSums sizes(num_heads);
  double layer_error = 0;
  double layer_size = 0;
  for_judged_queries(grid.num_tokens(), [&](std::int64_t first, std::int64_t count) {
    const Tensor rows = mixed.rows(first, count);
    const Tensor wanted_rows = wanted.rows(first, count);
    if (stochastic) kl.add(divergence(wanted_rows, log_weights(rows)));
    const Tensor y = mixed.output(rows, first, count);
    const Tensor wanted_y = wanted.output(wanted_rows, first, count);
    cosine.add(at::cosine_similarity(y, wanted_y, -1));
    errors.add((y - wanted_y).square().sum(-1));
    sizes.add(wanted_y.square().sum(-1));
    const Tensor out = diagnosed.block.attention().project_out(merge_heads(y));
    const Tensor wanted_out = reference.block.attention().project_out(merge_heads(wanted_y));
    layer_error += (out - wanted_out).square().sum(at::kDouble).item<double>();
    layer_size += wanted_out.square().sum(at::kDouble).item<double>();
  });
  Numbers numbers(num_heads);
  numbers.set(Diagnostic::reference_kl, kl.mean());
  numbers.set(Diagnostic::reference_cosine, cosine.mean());
  numbers.set(Diagnostic::reference_error, (errors.sum() / sizes.sum()).sqrt(),
              std::sqrt(layer_error / layer_size));
  return numbers.all();
}

bool AttentionDiagnostics::comparable(const VitConfig& model, const VitConfig& reference) {
  return model.depth == reference.depth && model.embed_dim == reference.embed_dim &&
         model.num_heads == reference.num_heads && model.patch_size == reference.patch_size &&
         model.num_prefix_tokens() == reference.num_prefix_tokens() &&
         model.overview == reference.overview;
}

AttentionDiagnostics::AttentionDiagnostics(VisionTransformerImpl& model,
                                           VisionTransformerImpl* reference)
    : model_(model), reference_(reference) {
  for (const VisionTransformerImpl* one : {&model, reference})
    if (const std::string why = one != nullptr ? why_no_tokens(one->config()) : ""; !why.empty())
      throw Error(ErrorCode::invalid_argument, why, one->config().arch);
  const VitConfig& config = model.config();
  const std::vector<std::int64_t> sizes{config.depth, config.num_heads + 1,
                                        static_cast<std::int64_t>(diagnostics().size())};
  sums_ = at::zeros(sizes, at::kDouble);
  counts_ = at::zeros(sizes, at::kDouble);
}

void AttentionDiagnostics::add(const Tensor& image) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = model_.config();
  const TokenGrid grid = config.token_grid_of_pixels(image.size(1), image.size(2));
  const auto device = model_.parameters().front().device();
  const auto tokens_of = [&](VisionTransformerImpl& model) {
    std::vector<Tensor> tokens;
    ForwardOptions options;
    options.block_inputs = &tokens;
    const Tensor last = model.forward_features(image.unsqueeze(0).to(device), options);
    const auto require_finite = [](const Tensor& some, const std::string& where) {
      if (!some.isfinite().all().item<bool>())
        throw Error(ErrorCode::failed, "tokens are NaN or infinite " + where);
    };
    for (std::size_t layer = 0; layer < tokens.size(); ++layer)
      require_finite(tokens[layer], "before layer " + std::to_string(layer));
    require_finite(last, "behind the last layer");
    return tokens;
  };
  const auto block = [](VisionTransformerImpl& model, std::int64_t layer) {
    return DiagnosedBlock{model.block(layer),
                          find_mechanism(model.config().attention_of(layer).mechanism),
                          model.config().training_grid()};
  };
  const auto keep = [&](std::int64_t layer, const Tensor& numbers) {
    const Tensor finite = numbers.isfinite();
    sums_[layer] += at::where(finite, numbers, 0.0);
    counts_[layer] += finite.to(at::kDouble);
  };
  with_torch_errors("the diagnostics of " + std::to_string(grid.num_tokens()) + " tokens",
                    device.str(), "a smaller `img_size` needs less", [&] {
                      const std::vector<Tensor> tokens = tokens_of(model_);
                      const std::vector<Tensor> wanted =
                          reference_ != nullptr ? tokens_of(*reference_) : std::vector<Tensor>();
                      for (std::int64_t layer = 0; layer < config.depth; ++layer) {
                        const auto index = static_cast<std::size_t>(layer);
                        keep(layer, diagnose_block(block(model_, layer), tokens[index], grid));
                        if (reference_ == nullptr) continue;
                        keep(layer, compare_blocks(block(model_, layer), block(*reference_, layer),
                                                   wanted[index], grid));
                      }
                    });
  ++images_;
  queries_ = judged_queries(grid.num_tokens());
}

Tensor AttentionDiagnostics::means() const { return sums_ / counts_; }

}  // namespace hydrascope::model::explain
