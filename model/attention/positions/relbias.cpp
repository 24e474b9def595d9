// A learned bias for every offset of patches, by head:
//   s_ij = q_i . k_j / sqrt(d) + T_h[offset_ij]
// table=swin: one entry for each offset within the training grid (Liu et al. 2021, Swin, arXiv
// 2103.14030), with three more if there are prefix tokens: from them to patches, from patches to
// them, among them (Bao et al. 2022, BEiT, arXiv 2106.08254). Another grid interpolates the table
// linearly, by rows and columns. With pos_interp=hf the entries lie evenly over the new offsets
// (transformers' BeitRelativePositionBias), else in a geometric progression, so that short offsets
// keep theirs (timm's resize_rel_pos_bias_table, after BEiT's code).
// table=t5: T5's buckets (Raffel et al. 2020, arXiv 1910.10683), 32 of them up to a distance of 128 and
// wider with the distance, for rows plus columns.
// table=mlp: a network of log-spaced offsets, sign(x) ln(1 + |x|), as of timm's vit_relpos_* (after Liu
// et al. 2022, Swin V2, arXiv 2111.09883). Without entries of their own prefix tokens have the bias 0.
// At their start all three are softmax.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

enum class BiasTable { swin, t5, mlp };

const ChoiceOption<BiasTable> kBiasTable(
    "table", {{"swin", BiasTable::swin}, {"t5", BiasTable::t5}, {"mlp", BiasTable::mlp}},
    "an entry for each offset, T5's buckets of each axis, or a network of the offset");
const IntegerOption kBiasHidden("hidden", 128, 1, 65536, "width of table=mlp");

constexpr std::int64_t kBuckets = 32;
constexpr double kFarthest = 128;

/// The buckets (int64) of offsets 1 - length .. length - 1.
at::Tensor t5_buckets(std::int64_t length) {
  constexpr std::int64_t kHalf = kBuckets / 2;
  constexpr std::int64_t kExact = kHalf / 2;
  const at::Tensor offset = at::arange(1 - length, length, at::kLong);
  const at::Tensor distance = offset.abs();
  const double widest = std::log(kFarthest / kExact);
  const at::Tensor far =
      (distance.to(at::kDouble).clamp_min(kExact) / kExact).log() * ((kHalf - kExact) / widest);
  const at::Tensor bucket = at::where(distance < kExact, distance,
                                      (far.floor().to(at::kLong) + kExact).clamp_max(kHalf - 1));
  // T5 counts from the query to the key, which is the other way round.
  return bucket + (offset < 0).to(at::kLong) * kHalf;
}

/// Weights (2 to - 1, 2 from - 1), of double, of the entries of `from` patches at the offsets of `to`:
/// linear between neighbours; beyond the outermost entry all of it.
at::Tensor weights_of_entries(std::int64_t from, std::int64_t to, bool even) {
  double ratio = 1;
  // timm's bounds and end of the bisection, whose last ratio counts.
  for (double low = 1.01, high = 1.5; !even && high - low > 1e-6;) {
    ratio = (low + high) / 2;
    const double outermost = (1 - std::pow(ratio, static_cast<double>(from - 1))) / (1 - ratio);
    (outermost > static_cast<double>(to - 1) ? high : low) = ratio;
  }
  at::Tensor after = at::pow(ratio, at::arange(from - 1, at::kDouble)).cumsum(0);
  if (even) after = after * (2 * to - 1) / (2 * from - 1);
  const at::Tensor places = at::cat({-after.flip(0), at::zeros({1}, at::kDouble), after});
  const at::Tensor offset = at::arange(1 - to, to, at::kDouble).unsqueeze(1);
  const at::Tensor passed = ((offset - places.slice(0, 0, -1)) / places.diff()).clamp(0, 1);
  return -at::cat({at::ones_like(offset), passed, at::zeros_like(offset)}, 1).diff();
}

class RelativeBias final : public PositionRule {
 public:
  explicit RelativeBias(const TokenMixerArguments& arguments)
      : training_(arguments.training_grid),
        kind_(kBiasTable(arguments.options)),
        even_(arguments.pos_interp == PosInterp::hf) {
    const std::int64_t heads = arguments.num_heads;
    const auto zeros = [&](const char* name, at::IntArrayRef size) {
      return arguments.add_parameter(name, at::zeros(size));
    };
    if (kind_ == BiasTable::swin) {
      const std::int64_t own = training_.num_prefix > 0 ? 3 : 0;
      table_ = zeros("rel_pos.relative_position_bias_table", {offsets_of(training_) + own, heads});
    } else if (kind_ == BiasTable::t5) {
      rows_ = zeros("rel_pos.rows", {kBuckets, heads});
      columns_ = zeros("rel_pos.columns", {kBuckets, heads});
    } else {
      const std::int64_t hidden = kBiasHidden(arguments.options);
      constexpr double kStd = 0.02;
      fc1_weight_ =
          arguments.add_parameter("rel_pos.mlp.fc1.weight", at::randn({hidden, 2}) * kStd);
      fc1_bias_ = zeros("rel_pos.mlp.fc1.bias", {hidden});
      fc2_weight_ = zeros("rel_pos.mlp.fc2.weight", {heads, hidden});
      fc2_bias_ = zeros("rel_pos.mlp.fc2.bias", {heads});
    }
  }

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const TokenGrid& grid = pairs.grid;
    const std::int64_t heads = q.size(2);
    // Entries of all offsets, of pairs with prefix tokens, and (3) as the table has them.
    const at::Tensor entries = table(grid, q.scalar_type()).narrow(1, pairs.first_head, heads);
    const PatchOffsets offset = offsets(pairs);
    const at::Tensor of_patches = (offset.rows + (grid.rows - 1)) * (2 * grid.columns - 1) +
                                  offset.columns + (grid.columns - 1);
    const at::Tensor query_is_prefix = (pairs.queries < grid.num_prefix).unsqueeze(2);
    const at::Tensor key_is_prefix = (pairs.keys < grid.num_prefix).unsqueeze(1);
    const at::Tensor of_others = offsets_of(grid) + query_is_prefix.logical_not().to(at::kLong) +
                                 query_is_prefix.logical_and(key_is_prefix).to(at::kLong) * 2;
    const at::Tensor index = at::where(offset.patches, of_patches, of_others).to(q.device());
    const at::Tensor bias = entries.index_select(0, index.flatten())
                                .view({index.size(0), index.size(1), index.size(2), heads})
                                .permute({0, 3, 1, 2});
    return scaled_products(q, k) + bias;
  }

 private:
  static std::int64_t offsets_of(const TokenGrid& grid) {
    return (2 * grid.rows - 1) * (2 * grid.columns - 1);
  }

  /// (offsets + 3, H) of a grid.
  [[nodiscard]] at::Tensor table(const TokenGrid& grid, at::ScalarType type) const {
    if (kind_ == BiasTable::swin) {
      const at::Tensor all = table_.to(type);
      const at::Tensor own = training_.num_prefix > 0 ? all.narrow(0, offsets_of(training_), 3)
                                                      : all.new_zeros({3, all.size(1)});
      return at::cat({resized(all.narrow(0, 0, offsets_of(training_)), grid), own});
    }
    at::Tensor of_offsets;  // (2 R - 1, 2 C - 1, H)
    if (kind_ == BiasTable::t5) {
      const auto along = [&](const at::Tensor& entries, std::int64_t length) {
        return entries.to(type).index_select(0, t5_buckets(length).to(entries.device()));
      };
      of_offsets =
          along(rows_, grid.rows).unsqueeze(1) + along(columns_, grid.columns).unsqueeze(0);
    } else {
      const auto logs = [&](std::int64_t length) {
        const at::Tensor offset = at::arange(1 - length, length, fc1_weight_.options().dtype(type));
        return offset.sign() * offset.abs().log1p();
      };
      const auto grids = at::meshgrid({logs(grid.rows), logs(grid.columns)}, "ij");
      const at::Tensor hidden =
          at::linear(at::stack({grids[0], grids[1]}, 2), fc1_weight_.to(type), fc1_bias_.to(type))
              .relu();
      of_offsets = at::linear(hidden, fc2_weight_.to(type), fc2_bias_.to(type));
    }
    const at::Tensor flat = of_offsets.flatten(0, 1);
    return at::cat({flat, flat.new_zeros({3, flat.size(1)})});
  }

  /// The offsets' entries (n, H) of the training grid at another one.
  [[nodiscard]] at::Tensor resized(const at::Tensor& entries, const TokenGrid& grid) const {
    if (grid.rows == training_.rows && grid.columns == training_.columns) return entries;
    const auto weights = [&](std::int64_t from, std::int64_t to) {
      return weights_of_entries(from, to, even_).to(entries.options());
    };
    return weights(training_.rows, grid.rows)
        .matmul(entries.t().reshape({-1, 2 * training_.rows - 1, 2 * training_.columns - 1}))
        .matmul(weights(training_.columns, grid.columns).t())
        .flatten(1)
        .t();
  }

  TokenGrid training_;
  BiasTable kind_;
  bool even_;                                                 ///< how `resized` spreads the entries
  at::Tensor table_;                                          ///< table=swin
  at::Tensor rows_, columns_;                                 ///< table=t5, (32, H)
  at::Tensor fc1_weight_, fc1_bias_, fc2_weight_, fc2_bias_;  ///< table=mlp
};

const PositionRegistration kRelativeBias({
    .name = "relbias",
    .aliases = {"relpos"},
    .summary = "a learned bias of each head for the offset of the two patches",
    .citation = "Liu et al. 2021, Swin Transformer, arXiv 2103.14030; Bao et al. 2022, BEiT, arXiv "
                "2106.08254; Raffel et al. 2020, T5, arXiv 1910.10683",
    .scores = "s_ij = q_i . k_j / sqrt(d) + T_h[offset_ij]",
    .options = {kBiasTable, kBiasHidden},
    .parameters = {{"rel_pos.relative_position_bias_table",
                    "((2R-1)(2C-1) [+ 3], H), with table=swin", "zeros"},
                   {"rel_pos.rows", "(32, H), with table=t5", "zeros"},
                   {"rel_pos.columns", "(32, H), with table=t5", "zeros"},
                   {"rel_pos.mlp.fc1.weight", "(F, 2), with table=mlp", "normal, 0.02"},
                   {"rel_pos.mlp.fc1.bias", "(F), with table=mlp", "zeros"},
                   {"rel_pos.mlp.fc2.weight", "(H, F), with table=mlp", "zeros"},
                   {"rel_pos.mlp.fc2.bias", "(H), with table=mlp", "zeros"}},
    .cost = [](const MixerSize& size, const MechanismOptions&,
               double pairs) { return pairs * static_cast<double>(size.num_heads); },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<RelativeBias>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
