// Longformer (Beltagy et al. 2020, Longformer: The Long-Document Transformer, arXiv 2004.05150,
// section 3.1) on the patch grid: neighbourhoods (neighborhood.cpp) whose windows grow with depth;
// a few heads dilate in the upper half of the layers. Prefix tokens are its global tokens.
// Layer l of L has the odd window
//   w_l = 2 floor((w_0 + (w - w_0) l / (L - 1)) / 2) + 1
// along each axis. The paper's second projection for global tokens, which starts as a copy of the
// first one, is left out: a class token is one row.
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/registry/mechanisms.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

const IntegerOption kFirstWindow("window_first", 7, 1, 65536,
                                 "patches along an axis in the first layer, made odd");
const ExtentOption kLastWindow("window", "the same in the last layer; 0: the training grid");
const IntegerOption kUpperDilation("dilation", 2, 1, 65536,
                                   "every so many rows and columns are seen by dilated heads");
const IntegerOption kUpperDilatedHeads(
    "dilated_heads", 2, 1, 65536, "the last heads, which dilate in the upper half of the layers");
const ChoiceOption<bool> kWindowClips = border_option(true);

std::vector<HeadPattern> longformer_heads(const MechanismOptions& options,
                                          const SparseLayer& layer) {
  const GridExtent last = kLastWindow(options, layer.training_grid);
  const std::int64_t steps = std::max<std::int64_t>(1, layer.depth - 1);
  const auto window = [&](std::int64_t of_last) {
    const std::int64_t first = kFirstWindow(options);
    return (first * steps + (of_last - first) * layer.layer_index) / (2 * steps) * 2 + 1;
  };
  const bool dilates = 2 * layer.layer_index >= layer.depth;
  return neighborhood_heads({{window(last.rows), window(last.columns)},
                             dilates ? kUpperDilation(options) : 1,
                             kWindowClips(options)},
                            layer.num_heads, kUpperDilatedHeads(options));
}

const MechanismRegistration kLongformer(sparse_mechanism(
    {.name = "longformer",
     .summary = "neighbourhoods that grow with depth, some heads dilated, O(N D w^2)",
     .citation = "Beltagy et al. 2020, Longformer: The Long-Document Transformer, arXiv 2004.05150",
     .options = {kFirstWindow, kLastWindow, kUpperDilation, kUpperDilatedHeads, kWindowClips},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the layer's neighbourhood of the "
                       "query and the prefix tokens, 0 elsewhere; rows of prefix tokens over all"},
    longformer_heads));

}  // namespace
}  // namespace hydrascope::model
