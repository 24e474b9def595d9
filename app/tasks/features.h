// The features of a model, and answers by stored ones.
#pragma once

#include "app/model/model_source.h"
#include "app/session/session.h"
#include "app/store/vector_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hydrascope::app {

/// By the words of `--features`; nothing for "patches", which are no vector of a picture.
std::optional<model::Features> find_features(std::string_view name);
/// The model with these features beside its logits; "patches" leaves the source as it is. Throws
/// Error(invalid_argument) for features that the model does not have.
ModelSource feature_source(ModelSource source, const std::string& features);

/// The facts of vectors that `source` makes with that transform; `precision` may be "".
StoreFacts facts_of(const ModelSource& source, const image::TransformConfig& transform,
                    const std::string& features, const std::string& precision);

/// DINO's vote of the nearest pictures (Caron et al. 2021, arXiv 2104.14294, appendix F.1): each of the k
/// votes for its class with exp(cosine / 0.07).
struct NeighbourVote {
  std::int64_t k = 20;
  /// The share of the vote in kNN-LM's mixture with the classifier's probabilities (Khandelwal et al. 2020,
  /// arXiv 1911.00172); without it the vote alone answers, over the store's classes.
  std::optional<double> share = {};
};
/// A model that answers by the vote; logits are logarithms of probabilities. Throws Error(invalid_argument)
/// for a store without labels and, with a share, for labels that are no classes of the model. `labels` are
/// the model's own.
ModelSource voting_source(ModelSource source, const std::shared_ptr<const VectorStore>& store,
                          const NeighbourVote& vote, const image::Labels& labels);

}  // namespace hydrascope::app
