// Transformer-XL's relative scores (Dai et al. 2019, arXiv 1901.02860, section 3.3), the sinusoid of
// the offset made of one for rows and one for columns, D/2 features each:
//   s_ij = (q_i . k_j + q_i . rho_ij + u . k_j + v . rho_ij) / sqrt(d)
//   rho_ij = W_R [p(dr), p(dc)],    p(x) = [sin(x w_n), cos(x w_n)],    w_n = base^(-n / (D/4))
// u and v are learned by each head. rho is 0 beside a prefix token. With W_R = 0 and u = 0, the start,
// it is softmax.
#include "model/attention/attention.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"

#include <ATen/ATen.h>

#include <cmath>

namespace hydrascope::model {
namespace {

const NumberOption kXlBase("base", "10000", 1, 1e6, "of the sinusoid's frequencies");

class TransformerXl final : public PositionRule {
 public:
  explicit TransformerXl(const TokenMixerArguments& arguments) : base_(kXlBase(arguments.options)) {
    const std::int64_t dim = arguments.num_heads * arguments.head_dim;
    weight_ = arguments.add_parameter("xl.weight", at::zeros({dim, dim}));
    u_ = arguments.add_parameter("xl.u", at::zeros({arguments.num_heads, arguments.head_dim}));
    v_ = arguments.add_parameter("xl.v", at::zeros({arguments.num_heads, arguments.head_dim}));
  }

  [[nodiscard]] at::Tensor scores(const at::Tensor& q, const at::Tensor& k,
                                  const TokenPairs& pairs) const override {
    const std::int64_t heads = q.size(2);
    const auto of_heads = [&](const at::Tensor& x) {
      return x.narrow(0, pairs.first_head, heads).to(q.scalar_type()).unsqueeze(1);
    };
    const PatchOffsets offset = offsets(pairs);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    const at::Tensor for_positions = (q + of_heads(v_)) * scale;
    const auto along = [&](std::int64_t axis, const at::Tensor& of_axis, std::int64_t length) {
      const at::Tensor rho = sinusoids(axis, length, q).narrow(0, pairs.first_head, heads);
      return products_with_entries(for_positions, rho, of_axis + (length - 1));
    };
    const at::Tensor of_offsets =
        along(0, offset.rows, pairs.grid.rows) + along(1, offset.columns, pairs.grid.columns);
    return scaled_products(q + of_heads(u_), k) +
           of_offsets * offset.patches.to(q.device()).unsqueeze(1);
  }

 private:
  /// W_R p of an axis's offsets 1 - length .. length - 1, by head: (H, 2 length - 1, d).
  [[nodiscard]] at::Tensor sinusoids(std::int64_t axis, std::int64_t length,
                                     const at::Tensor& q) const {
    const std::int64_t dim = weight_.size(0);
    const at::Tensor frequency =
        at::pow(1 / base_, at::arange(dim / 4, at::kDouble) / static_cast<double>(dim / 4));
    const at::Tensor angle =
        at::arange(1 - length, length, at::kDouble).unsqueeze(1) * frequency.unsqueeze(0);
    const at::Tensor p = at::cat({angle.sin(), angle.cos()}, 1).to(q.options());
    const at::Tensor weight = weight_.narrow(1, axis * (dim / 2), dim / 2).to(q.scalar_type());
    return at::linear(p, weight).unflatten(1, {u_.size(0), -1}).transpose(0, 1);
  }

  double base_;
  at::Tensor weight_;  ///< W_R, (D, D): the first half of its columns is of rows
  at::Tensor u_, v_;   ///< (H, d)
};

const PositionRegistration kTransformerXl({
    .name = "transformer_xl",
    .aliases = {"xl"},
    .summary = "scores of content and of a projected sinusoid of the offset, with learned biases",
    .citation = "Dai et al. 2019, Transformer-XL, arXiv 1901.02860; its form for images is this "
                "project's",
    .scores = "s_ij = (q_i . k_j + q_i . rho_ij + u . k_j + v . rho_ij) / sqrt(d)",
    .options = {kXlBase},
    .parameters = {{"xl.weight", "(D, D)", "zeros"},
                   {"xl.u", "(H, d)", "zeros"},
                   {"xl.v", "(H, d)", "zeros"}},
    .head_multiple = 4,
    .cost =
        [](const MixerSize& size, const MechanismOptions&, double pairs) {
          const auto offsets = static_cast<double>(2 * (size.grid.rows + size.grid.columns) - 2);
          const auto features = static_cast<double>(size.embed_dim);
          // Sinusoids through W_R, queries with them, and two biases of the queries.
          return offsets * features * features +
                 2 * (offsets + 1) * static_cast<double>(size.num_tokens()) * features +
                 2 * pairs * static_cast<double>(size.num_heads);
        },
    .make = [](const TokenMixerArguments& arguments) -> std::shared_ptr<const PositionRule> {
      return std::make_shared<TransformerXl>(arguments);
    },
});

}  // namespace
}  // namespace hydrascope::model
