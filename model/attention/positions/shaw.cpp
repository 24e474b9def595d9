// Relative position representations (Shaw et al. 2018, arXiv 1803.02155, equations 3 and 4), with one
// table for rows and one for columns as in MViTv2 (arXiv 2112.01526) and SAM, shared by the heads:
//   s_ij = q_i . (k_j + h[dr] + w[dc]) / sqrt(d),    y_i = sum_j a_ij (v_j + hv[dr] + wv[dc])
// dr and dc are clipped to the tables' reach: +-clip, or the training grid with clip=0. scaled=off
// leaves the tables' part undivided by sqrt(d), as SAM does; hv and wv are there with values=on. Pairs
// with a prefix token have no entries. Zero tables are softmax.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
namespace {

const IntegerOption kShawClip("clip", 0, 0, 65536,
                              "offsets beyond it share an entry; 0: the training grid's largest");
const SwitchOption kShawScaled("scaled", true, "divide the tables' scores by sqrt(d), too");
const SwitchOption kShawValues("values", false, "tables for the values as well");

/// The farthest offsets that have entries of their own.
GridExtent shaw_reach(const MechanismOptions& options, const TokenGrid& training) {
  const std::int64_t clip = kShawClip(options);
  if (clip > 0) return {clip, clip};
  return {std::max<std::int64_t>(training.rows - 1, 0),
          std::max<std::int64_t>(training.columns - 1, 0)};
}

class Shaw final : public PositionRule {
 public:
  explicit Shaw(const TokenMixerArguments& arguments)
      : scaled_(kShawScaled(arguments.options)), values_(kShawValues(arguments.options)) {
    const auto [rows, columns] = shaw_reach(arguments.options, arguments.training_grid);
    const auto table = [&](const char* name, std::int64_t farthest) {
      return arguments.add_parameter(name, at::zeros({2 * farthest + 1, arguments.head_dim}));
    };
    h_ = table("rel_pos_h", rows);
    w_ = table("rel_pos_w", columns);
    if (!values_) return;
    value_h_ = table("rel_pos_value_h", rows);
    value_w_ = table("rel_pos_value_w", columns);
  }

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const double scale = scaled_ ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : 1;
    return scaled_products(q, k) + products(q * scale, h_, w_, pairs);
  }

  [[nodiscard]] bool adds_values() const override { return values_; }
  [[nodiscard]] at::Tensor added_values(const at::Tensor& weights,
                                        const TokenPairs& pairs) const override {
    const PatchOffsets offset = offsets(pairs);
    return sums_of_entries(weights, value_h_, entries(offset.rows, value_h_), offset.patches) +
           sums_of_entries(weights, value_w_, entries(offset.columns, value_w_), offset.patches);
  }
  [[nodiscard]] at::Tensor value_products(const at::Tensor& g,
                                          const TokenPairs& pairs) const override {
    return products(g, value_h_, value_w_, pairs);
  }

 private:
  /// The number of an offset's entry in a table.
  static at::Tensor entries(const at::Tensor& offset, const at::Tensor& table) {
    const std::int64_t farthest = table.size(0) / 2;
    return offset.clamp(-farthest, farthest) + farthest;
  }
  static at::Tensor products(const at::Tensor& x, const at::Tensor& h, const at::Tensor& w,
                             const TokenPairs& pairs) {
    const PatchOffsets offset = offsets(pairs);
    const at::Tensor sum = products_with_entries(x, h, entries(offset.rows, h)) +
                           products_with_entries(x, w, entries(offset.columns, w));
    return sum * offset.patches.to(x.device()).unsqueeze(1);
  }

  bool scaled_;
  bool values_;
  at::Tensor h_, w_;              ///< (2 k + 1, d)
  at::Tensor value_h_, value_w_;  ///< the same, with values=on
};

const PositionRegistration kShaw({
    .name = "shaw",
    .summary = "learned vectors of the offset, added to keys and with values=on to values",
    .citation = "Shaw et al. 2018, Self-Attention with Relative Position Representations, arXiv "
                "1803.02155; by axis Li et al. 2022, MViTv2, arXiv 2112.01526",
    .scores = "s_ij = q_i . (k_j + h[dr] + w[dc]) / sqrt(d)",
    .options = {kShawClip, kShawScaled, kShawValues},
    .parameters = {{"rel_pos_h", "(2k+1, d)", "zeros"},
                   {"rel_pos_w", "(2k+1, d)", "zeros"},
                   {"rel_pos_value_h", "(2k+1, d), with values=on", "zeros"},
                   {"rel_pos_value_w", "(2k+1, d), with values=on", "zeros"}},
    .cost =
        [](const MixerSize& size, const MechanismOptions& options, double pairs) {
          const GridExtent reach = shaw_reach(options, size.training_grid);
          const auto entries = static_cast<double>(2 * (reach.rows + reach.columns) + 2);
          const double products =
              2 * entries * static_cast<double>(size.num_tokens() * size.embed_dim);
          // Both axes' products are added to a pair's score, and its weight to both axes' sums.
          return (kShawValues(options) ? 2 : 1) *
                 (products + 2 * pairs * static_cast<double>(size.num_heads));
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<Shaw>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
