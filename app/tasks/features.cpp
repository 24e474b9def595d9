#include "app/tasks/features.h"

#include "app/model/model_metadata.h"
#include "app/model/resolve_labels.h"
#include "app/pictures/class_words.h"
#include "app/run/usage_error.h"
#include "model/checkpoint/formats/sha256.h"
#include "model/registry/attention_spec.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

/// The end of the transform where pictures are not turned as their EXIF says.
constexpr std::string_view kAsStored = ", not turned upright";
constexpr double kTemperature = 0.07;
constexpr double kLeastProbability = 1e-30;  ///< of a label without a voter; a vote has more

/// The class of the model that each label of the store names; nothing where any names none, or several.
std::optional<std::vector<std::int64_t>> classes_of(const std::vector<std::string>& labels,
                                                    const image::Labels& of_model) {
  const ClassWords words(of_model);
  std::vector<std::int64_t> classes;
  for (const std::string& label : labels) {
    const ClassWords::Meaning meaning = words.meaning_of(label);
    if (meaning.classes.size() != 1) return std::nullopt;
    classes.push_back(meaning.classes.front());
  }
  const std::set<std::int64_t> distinct(classes.begin(), classes.end());
  if (distinct.size() != classes.size()) return std::nullopt;
  return classes;
}

/// The votes of the nearest pictures, relative to the nearest one's, which leaves the shares as they are.
std::vector<double> weights_of(const std::vector<Neighbour>& found) {
  std::vector<double> weights;
  for (const Neighbour& one : found)
    weights.push_back(std::exp((one.similarity - found.front().similarity) / kTemperature));
  return weights;
}

/// The class vectors (labels, D) of a vote at the feature (D), for `ModelSource::class_vectors_of`. The shares of the
/// labels are the softmax of log(sum over a label's voters i of exp(u_i . f / 0.07)), f and u_i of length 1. A class
/// vector is the gradient of such a logit with regard to f: the mean of the u_i by their votes, over 0.07. It is
/// zero for a label without a voter.
at::Tensor vectors_of_vote(const VectorStore& store, std::int64_t k, const at::Tensor& feature) {
  const std::vector<Neighbour> found = store.nearest(feature.unsqueeze(0), k).front();
  const std::vector<double> weights = weights_of(found);
  std::vector<double> sums(store.labels().size(), 0);
  const auto label_of = [&](std::size_t i) { return store.class_of(found[i].index); };
  for (std::size_t i = 0; i < found.size(); ++i)
    sums[static_cast<std::size_t>(label_of(i))] += weights[i];
  at::Tensor vectors = at::zeros({std::ssize(sums), store.dim()});
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double share = weights[i] / sums[static_cast<std::size_t>(label_of(i))];
    vectors[label_of(i)].add_(store.unit_vector(found[i].index), share / kTemperature);
  }
  return vectors;
}

}  // namespace

ModelSource feature_source(ModelSource source, const std::string& features) {
  if (source.answer)
    throw UsageError("features are the model's, class vectors have none", "`classes`");
  const auto kind = find_features(features);
  if (!kind) return source;
  if (const std::string why = model::why_no_features(source.config, *kind); !why.empty())
    throw UsageError("the model " + why, "`features` " + features,
                     "`features` pooled is the input of its classifier");
  source.answer = model::FeatureAnswer{.model = source.config, .features = *kind};
  return source;
}

std::optional<model::Features> find_features(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, model::Features>, 4> kFeatures{
      {{"pooled", model::Features::pooled},
       {"class", model::Features::class_token},
       {"mean", model::Features::patch_mean},
       {"projected", model::Features::projected}}};
  const auto* const found =
      std::ranges::find(kFeatures, name, &decltype(kFeatures)::value_type::first);
  return found == kFeatures.end() ? std::nullopt : std::optional(found->second);
}

StoreFacts facts_of(const ModelSource& source, const image::TransformConfig& transform,
                    bool upright, const std::string& features, const std::string& precision) {
  if (source.random_weights)
    throw UsageError("features of random weights say nothing", source.name);
  std::string attention = model::to_text(source.config.attention);
  for (const auto& [option, value] : computed_options(source.config))
    attention += ", " + option + "=" + value;
  std::string digest = checkpoint::sha256_of_file(source.weights.file());
  if (const std::string& entry = source.weights.entry(); !entry.empty()) digest += " " + entry;
  std::string of_pictures = image::describe(transform);
  if (!upright) of_pictures += std::string(kAsStored);
  return {source.name, digest, attention, features, of_pictures, precision};
}

bool is_upright(const StoreFacts& facts) { return !facts.transform.ends_with(kAsStored); }

ModelSource voting_source(ModelSource source, const std::shared_ptr<const VectorStore>& store,
                          const VoteRequest& vote, const image::Labels& labels) {
  store->require_one_vector_each();
  store->require_labels();
  const auto known = labels.size() > 0 ? classes_of(store->labels(), labels) : std::nullopt;
  if (vote.share && !known)
    throw UsageError("has labels that are no classes of " + source.name, store->file(),
                     "`knn` without `knn_mix` answers with the store's own labels");
  const bool mixes = vote.share.has_value();
  const std::int64_t num_classes = mixes ? source.config.num_classes : std::ssize(store->labels());
  source = feature_source(std::move(source), store->facts().features);
  if (mixes && !model::are_pooled(source.answer->model, source.answer->features))
    throw UsageError("holds other features than the classifier is given", store->file(),
                     "`knn_mix` needs `features` pooled");
  source.answer->answer = [store, vote, num_classes, of_model = mixes ? known : std::nullopt](
                              const at::Tensor& features, const at::Tensor& logits) {
    at::Tensor votes = at::zeros({features.size(0), num_classes}, at::kDouble);
    auto cells = votes.accessor<double, 2>();
    const auto answers = store->nearest(features, vote.k);
    for (std::int64_t row = 0; row < features.size(0); ++row) {
      const std::vector<Neighbour>& found = answers[static_cast<std::size_t>(row)];
      const std::vector<double> weights = weights_of(found);
      double sum = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::int64_t label = store->class_of(found[i].index);
        cells[row][of_model ? (*of_model)[static_cast<std::size_t>(label)] : label] += weights[i];
        sum += weights[i];
      }
      for (std::int64_t i = 0; i < num_classes; ++i) cells[row][i] /= sum;
    }
    if (vote.share)
      votes = votes * *vote.share + logits.to(at::kDouble).softmax(1) * (1 - *vote.share);
    return votes.clamp_min(kLeastProbability).log().to(at::kFloat);
  };
  source.least_logit = std::log(kLeastProbability) + 1;
  leave_out_exits(source.config);
  source.config.num_classes = num_classes;
  if (mixes) return source;
  if (model::are_pooled(source.answer->model, source.answer->features))
    source.class_vectors_of = [store, k = vote.k](const at::Tensor& feature) {
      return vectors_of_vote(*store, k, feature);
    };
  source.head = {.num_classes = num_classes, .reset = true};
  for (std::size_t i = 0; i < store->labels().size(); ++i) {
    const std::string& label = store->labels()[i];
    source.classes.push_back(known ? labels.at((*known)[i]) : image::Label{"", label, label});
  }
  return source;
}

std::unique_ptr<Session> open_session(const PicturesRequest& request, const VoteRequest& vote) {
  if (vote.store.empty()) return Session::open(request);
  const auto store = std::make_shared<const VectorStore>(vote.store);
  ModelRequest voter = request.model;
  voter.may_lack_classes = true;
  ModelSource source = open_model(voter);
  const bool has_classes = source.config.num_classes > 0;
  const image::Labels labels =
      has_classes ? resolve_labels(request.labels, source).labels : image::Labels();
  PicturesRequest wanted = request;
  if (!vote.share) wanted.labels.clear();  // they are the store's
  std::unique_ptr<Session> session =
      Session::open(wanted, voting_source(std::move(source), store, vote, labels));
  if (session)
    store->facts().require_same(
        facts_of(session->source(), session->transform(), request.run.decode.apply_exif,
                 store->facts().features, ""),
        store->file());
  return session;
}

}  // namespace hydrascope::app
