// Extended Transformer Construction (Ainslie et al. 2020, ETC: Encoding Long and Structured Inputs in
// Transformers, arXiv 2004.08483, section 3.2) on the patches of a picture. The prefix tokens are its
// global input, neighbourhoods (neighborhood.cpp) its local one; regions of the picture are its
// sentences, each with one register as its summary. The picture is cut into about as many cells as
// there are G registers, cell c belongs to register c mod G, and masks are hard:
//   local to local    a patch sees its neighbourhood,
//   local to global   only its cell's register, and the class and distillation token;
//   global to local   a register sees the patches of its cells, the class token all,
//   global to global  and all prefix tokens.
// regions=off makes registers global. A model without registers has no regions.
#include "model/attention/projection/patch_pooling.h"
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/attention/sparse/sparse_softmax.h"
#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
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

/// The register of each image token, counted from the first register: (image tokens) int64 on the CPU.
/// The grid has registers.
Tensor register_of(const TokenGrid& grid) {
  std::vector<Tensor> parts;
  const auto add = [&](std::int64_t rows, std::int64_t columns) {
    if (rows * columns == 0) return;
    const GridExtent cells = cells_of({rows, columns}, grid.num_registers);
    const auto along = [](std::int64_t length, std::int64_t count) {
      return (at::arange(length, at::kLong) * count).div(length, "floor");
    };
    parts.push_back((along(rows, cells.rows).unsqueeze(1) * cells.columns +
                     along(columns, cells.columns).unsqueeze(0))
                        .flatten()
                        .remainder(grid.num_registers));
  };
  add(grid.rows, grid.columns);
  add(grid.overview_rows, grid.overview_columns);
  return parts.empty() ? at::empty({0}, at::kLong) : at::cat(parts);
}

/// Whether one of tokens first .. first + count and a token are a register and an image token that is
/// not its own: (count, N) bool on the CPU.
Tensor are_apart(const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  const Tensor prefix = at::arange(grid.num_prefix, at::kLong);
  const Tensor owner =
      at::cat({prefix - (grid.num_prefix - grid.num_registers), register_of(grid)});
  const Tensor is_image = at::arange(grid.num_tokens(), at::kLong) >= grid.num_prefix;
  const Tensor is_register = owner.ge(0).logical_and(is_image.logical_not());
  const auto rows = [&](const Tensor& x) { return x.narrow(0, first, count).unsqueeze(1); };
  return rows(is_register)
      .logical_and(is_image)
      .logical_or(rows(is_image).logical_and(is_register))
      .logical_and(rows(owner).ne(owner));
}

/// Groups in which a register's patches see that register: every image token is in one of them.
std::vector<KeyGroups> region_groups(const TokenGrid& grid) {
  const Tensor owner = register_of(grid);
  std::map<std::int64_t, std::vector<KeyGroups>> by_size;
  for (std::int64_t r = 0; r < grid.num_registers; ++r) {
    const Tensor patches = owner.eq(r).nonzero().view({1, -1});
    if (patches.numel() == 0) continue;
    // The registers lie in front of the first patch.
    const Tensor key = at::full({1, 1}, r - grid.num_registers, at::kLong);
    by_size[patches.size(1)].push_back({patches, key, {}});
  }
  std::vector<KeyGroups> groups;
  for (const auto& [size, alike] : by_size) {
    std::vector<Tensor> queries, keys;
    for (const KeyGroups& one : alike) {
      queries.push_back(one.queries);
      keys.push_back(one.keys);
    }
    groups.push_back({at::cat(queries), at::cat(keys), {}});
  }
  return groups;
}

/// ETC with regions; without registers it is softmax in neighbourhoods.
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
      return mix_by_rows(q, k, v, grid);
    auto passes = image_passes(*heads_.front().pattern, grid);
    passes.push_back(region_groups(grid));
    const auto tokens = [](const Tensor& x) { return x.transpose(1, 2); };
    const Tensor patches =
        mix_patches(tokens(turned_by(position(), q, grid)), tokens(turned_by(position(), k, grid)),
                    tokens(v), grid, grid.num_prefix - grid.num_registers, passes, position());
    return at::cat({mix_rows(q, k, v, grid, 0, grid.num_prefix), patches.flatten(2)}, 1);
  }

  Tensor attention_rows(const Tensor& q, const Tensor& k, const TokenGrid& grid, std::int64_t first,
                        std::int64_t count) override {
    if (grid.num_registers == 0) return without_regions_.attention_rows(q, k, grid, first, count);
    const Tensor queries = q.narrow(2, first, count);
    const Tensor scores = position() != nullptr
                              ? position()->score_rows(queries, k, grid, first)
                              : scaled_products(to_compute_type(queries), to_compute_type(k));
    const Tensor unseen = seen_rows(*heads_.front().pattern, grid, first, count)
                              .logical_not()
                              .logical_or(are_apart(grid, first, count));
    return scores.masked_fill(unseen.to(q.device()), -std::numeric_limits<double>::infinity())
        .softmax(-1);
  }

  [[nodiscard]] const PositionRule* position() const override {
    return without_regions_.position();
  }

 private:
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
    cost.pairs -= static_cast<double>(unseen);
  }
  return cost;
}

const MechanismRegistration kEtc(over_some_tokens({
    .name = "etc",
    .summary = "neighbourhoods, and registers that each see a region of the picture, O(N D w^2)",
    .citation = "Ainslie et al. 2020, ETC: Encoding Long and Structured Inputs in Transformers, "
                "arXiv 2004.08483",
    .options = {kEtcWindow, kRegions, kEtcClips},
    .map_definition =
        "A_h = softmax(q_h k_h^T / sqrt(d)) over the patches around the query, its "
        "region's register and the other prefix tokens, 0 elsewhere; rows of "
        "registers over their regions and the prefix, of other prefix tokens over all",
    .cost = etc_cost,
    .make = [](const TokenMixerArguments& arguments) -> std::unique_ptr<TokenMixer> {
      if (kRegions(arguments.options)) return std::make_unique<EtcMixer>(arguments);
      return std::make_unique<SparseSoftmaxMixer>(
          etc_heads(arguments.options, arguments.training_grid, arguments.num_heads), arguments,
          PrefixRows::plain);
    },
}));

}  // namespace
}  // namespace hydrascope::model
