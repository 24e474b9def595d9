// Neighbourhood attention (Hassani et al. 2023, arXiv 2204.07143; dilated: Hassani and Shi 2022,
// arXiv 2209.15001), the image form of a sliding window: a patch sees the w x w patches around it,
// of every e-th row and column, and the prefix tokens, which see everything. Along an axis of n
// patches position x, of phase f = x mod e, sees k = min(w, m) of the m = ceil((n - f) / e) positions
// of its phase:
//   f + e (s .. s + k - 1),    s = clamp(floor(x / e) - floor(k / 2), 0, m - k)
// At the picture's edge the neighbourhood moves inwards, so that every patch has as many keys;
// border=clip cuts the centred one off instead (Vision Longformer, Zhang et al. 2021, arXiv
// 2103.15358). With the training grid as its window the layer is softmax there.
#include "model/attention/sparse/neighborhood_pattern.h"
#include "model/registry/mechanisms.h"

namespace hydrascope::model {
namespace {

const ExtentOption kNeighbours("window",
                               "patches that a patch sees along an axis; 0: the training grid");
const IntegerOption kDilation("dilation", 1, 1, 65536, "every so many rows and columns are seen");
const IntegerOption kDilatedHeads("dilated_heads", 0, 0, 65536,
                                  "the last heads, which dilate; 0: all");
const ChoiceOption<bool> kClips = border_option(false);

const MechanismRegistration kNeighborhood(sparse_mechanism(
    {.name = "neighborhood",
     .aliases = {"na", "natten", "local", "sliding_window", "vil"},
     .summary = "softmax attention over the patches around each patch, O(N D w^2)",
     .citation = "Hassani et al. 2023, Neighborhood Attention Transformer, arXiv 2204.07143",
     .options = {kNeighbours, kDilation, kDilatedHeads, kClips},
     .map_definition = "A_h = softmax(q_h k_h^T / sqrt(d)) over the patches around the query and "
                       "the prefix tokens, 0 elsewhere; rows of prefix tokens over all"},
    [](const MechanismOptions& options, const SparseLayer& layer) {
      return neighborhood_heads(
          {kNeighbours(options, layer.training_grid), kDilation(options), kClips(options)},
          layer.num_heads, kDilatedHeads(options));
    }));

}  // namespace
}  // namespace hydrascope::model
