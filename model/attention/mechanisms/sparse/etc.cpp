// Extended Transformer Construction (Ainslie et al. 2020, ETC: Encoding Long and Structured Inputs in
// Transformers, arXiv 2004.08483, section 3.2) on the patches of a picture. The prefix tokens are its
// global input, neighbourhoods (neighborhood.cpp) its local one; regions of the picture are its
// sentences, one register its summary of one. About as many cells as there are registers cut the
// picture, cell c is that of register c mod G, and masks are hard:
//   local to local    a patch sees its neighbourhood,
//   local to global   of the registers that of its cell alone, and the class and distillation token;
//   global to local   a register sees the patches of its cells, the class token all,
//   global to global  and all prefix tokens.
// regions=off makes registers global. A model without registers has no regions.
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/attention/sparse/regions.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

const ExtentOption kEtcWindow("window",
                              "patches that a patch sees along an axis; 0: the training grid");
const SwitchOption kRegions(
    "regions", true, "a register sees the patches of its region, which see no other register");
const ChoiceOption<bool> kEtcClips = border_option(false);

std::vector<HeadPattern> etc_heads(const MechanismOptions& options, const TokenGrid& training,
                                   std::int64_t num_heads) {
  return neighborhood_heads({kEtcWindow(options, training), 1, kEtcClips(options)}, num_heads, 0);
}

/// With regions; without registers it is softmax in neighbourhoods.
class EtcMixer final : public TokenMixer {
 public:
  explicit EtcMixer(const TokenMixerArguments& arguments)
      : heads_(etc_heads(arguments.options, arguments.training_grid, arguments.num_heads)),
        without_regions_(etc_heads(arguments.options, arguments.training_grid, arguments.num_heads),
                         arguments, PrefixRows::plain) {}

  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
             Kernels kernels) override {
    if (grid.num_registers == 0) return without_regions_.mix(q, k, v, grid, kernels);
    if (kernels == Kernels::reference || grid.num_image_tokens() == 0)
      return mix_rows(q, k, v, grid, 0, grid.num_tokens());
    auto passes = heads_.front().pattern->passes(grid);
    if (grid.num_overview() > 0) {
      const Tensor overview =
          at::arange(grid.num_patches(), grid.num_image_tokens(), at::kLong).unsqueeze(0);
      passes.front().push_back({overview, overview, {}});
    }
    passes.push_back(region_groups(grid));
    const auto tokens = [](const Tensor& x) { return x.transpose(1, 2); };
    const Tensor patches = mix_patches(tokens(q), tokens(k), tokens(v), grid,
                                       grid.num_prefix - grid.num_registers, passes);
    return at::cat({mix_rows(q, k, v, grid, 0, grid.num_prefix), patches.flatten(2)}, 1);
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    if (grid.num_registers == 0) return without_regions_.attention_rows(q, k, grid, first, count);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    const Tensor queries = to_compute_type(q.narrow(2, first, count)) * scale;
    const Tensor unseen = sees(grid, first, count).logical_not().to(q.device());
    return queries.matmul(to_compute_type(k).transpose(-2, -1))
        .masked_fill(unseen, -std::numeric_limits<double>::infinity())
        .softmax(-1);
  }

 private:
  /// (count, N) bool on the CPU.
  [[nodiscard]] Tensor sees(const TokenGrid& grid, std::int64_t first, std::int64_t count) const {
    const std::int64_t num_global = grid.num_prefix - grid.num_registers;
    const std::int64_t overview = grid.num_prefix + grid.num_patches();
    const Tensor owner = register_of(grid);
    Tensor rows = at::zeros({count, grid.num_tokens()}, at::kBool);
    // Rows of tokens begin .. end among those that are asked for, and the first of them.
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      begin = std::clamp(begin, first, first + count);
      end = std::clamp(end, begin, first + count);
      return std::pair{rows.narrow(0, begin - first, end - begin), begin};
    };
    rows.slice(1, 0, num_global).fill_(true);
    part(0, num_global).first.fill_(true);
    const auto [of_registers, first_register] = part(num_global, grid.num_prefix);
    of_registers.slice(1, num_global, grid.num_prefix).fill_(true);
    for (std::int64_t i = 0; i < of_registers.size(0); ++i)
      of_registers[i].slice(0, grid.num_prefix).copy_(owner.eq(first_register + i - num_global));
    const auto [of_image, first_image] = part(grid.num_prefix, grid.num_tokens());
    if (of_image.size(0) > 0) {
      const Tensor own =
          owner.narrow(0, first_image - grid.num_prefix, of_image.size(0)) + num_global;
      of_image.scatter_(1, own.unsqueeze(1), true);
    }
    const auto [of_patches, first_patch] = part(grid.num_prefix, overview);
    if (of_patches.size(0) > 0)
      of_patches.slice(1, grid.num_prefix, overview)
          .copy_(heads_.front().pattern->rows(grid, first_patch - grid.num_prefix,
                                              of_patches.size(0)));
    part(overview, grid.num_tokens()).first.slice(1, overview).fill_(true);
    return rows;
  }

  std::vector<HeadPattern> heads_;
  SparseSoftmaxMixer without_regions_;
};

MixerCost etc_cost(const MixerSize& size, const MechanismOptions& options) {
  MixerCost cost = sparse_cost(size, etc_heads(options, size.training_grid, size.num_heads));
  const std::int64_t registers = kRegions(options) ? size.grid.num_registers : 0;
  if (registers > 0) {
    // Pairs of registers and patches in both directions: one of them for each patch is left.
    const std::int64_t unseen = 2 * (registers - 1) * size.grid.num_image_tokens();
    cost.flops -= 4 * static_cast<double>(size.embed_dim * unseen);
  }
  return cost;
}

const MechanismRegistration kEtc({
    .name = "etc",
    .summary = "neighbourhoods, and registers that each see a region of the picture, O(N D w^2)",
    .citation = "Ainslie et al. 2020, ETC: Encoding Long and Structured Inputs in Transformers, "
                "arXiv 2004.08483",
    .options = {kEtcWindow, kRegions, kEtcClips},
    .map_definition =
        "A_h = softmax(q_h k_h^T / sqrt(d)) over the patches around the query, its "
        "region's register and the other prefix tokens, 0 elsewhere; rows of "
        "registers over their regions and the prefix, of other prefix tokens over all",
    .rows_sum_to_one = true,
    .non_negative = true,
    .permutation_equivariant = false,
    .sparse = true,
    .cost = etc_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      if (kRegions(arguments.options)) return std::make_unique<EtcMixer>(arguments);
      return std::make_unique<SparseSoftmaxMixer>(
          etc_heads(arguments.options, arguments.training_grid, arguments.num_heads), arguments,
          PrefixRows::plain);
    },
});

}  // namespace
}  // namespace hydrascope::model
