// The features of a model, and answers by stored ones.
#pragma once

#include "app/model/model_source.h"
#include "app/session/session.h"
#include "app/store/vector_store.h"

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

/// The facts of vectors that `source` makes with that transform, of pictures that are turned `upright` or
/// stay as they are stored; `precision` may be "".
StoreFacts facts_of(const ModelSource& source, const image::TransformConfig& transform,
                    bool upright, const std::string& features, const std::string& precision);

/// The `upright` of these facts.
bool is_upright(const StoreFacts& facts);

/// A model that answers by DINO's vote of the nearest pictures (Caron et al. 2021, arXiv 2104.14294, appendix
/// F.1): each of the k votes for its class with exp(cosine / 0.07). With a share the answer is kNN-LM's mixture
/// with the classifier's probabilities (Khandelwal et al. 2020, arXiv 1911.00172), else it is over the store's
/// classes. Logits are logarithms of probabilities. Throws Error(invalid_argument) for a store without labels
/// and, with a share, for labels that are no classes of the model. `labels` are the model's own.
ModelSource voting_source(ModelSource source, const std::shared_ptr<const VectorStore>& store,
                          const VoteRequest& vote, const image::Labels& labels);

/// `Session::open`, with the vote where `vote` names a store. Null where the transform alone is asked for.
std::unique_ptr<Session> open_session(const PicturesRequest& request, const VoteRequest& vote);

}  // namespace hydrascope::app
