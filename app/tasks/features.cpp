#include "app/tasks/features.h"

#include "app/model/model_metadata.h"
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

constexpr double kTemperature = 0.07;
constexpr double kLeastProbability = 1e-12;

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
                    const std::string& features, const std::string& precision) {
  if (source.random_weights)
    throw UsageError("features of random weights say nothing", source.name);
  std::string attention = model::to_text(source.config.attention);
  for (const auto& [option, value] : computed_options(source.config))
    attention += ", " + option + "=" + value;
  std::string digest = checkpoint::sha256_of_file(source.weights.file());
  if (const std::string& entry = source.weights.entry(); !entry.empty()) digest += " " + entry;
  return {source.name, digest, attention, features, image::describe(transform), precision};
}

ModelSource voting_source(ModelSource source, const std::shared_ptr<const VectorStore>& store,
                          const NeighbourVote& vote, const image::Labels& labels) {
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
      double sum = 0;
      for (const Neighbour& one : found) {
        // Relative to the nearest, which leaves the shares as they are.
        const double weight = std::exp((one.similarity - found.front().similarity) / kTemperature);
        const std::int64_t label = store->class_of(one.index);
        cells[row][of_model ? (*of_model)[static_cast<std::size_t>(label)] : label] += weight;
        sum += weight;
      }
      for (std::int64_t i = 0; i < num_classes; ++i) cells[row][i] /= sum;
    }
    if (vote.share)
      votes = votes * *vote.share + logits.to(at::kDouble).softmax(1) * (1 - *vote.share);
    return votes.clamp_min(kLeastProbability).log().to(at::kFloat);
  };
  source.config.num_classes = num_classes;
  if (mixes) return source;
  source.head = {.num_classes = num_classes, .reset = true};
  for (std::size_t i = 0; i < store->labels().size(); ++i) {
    const std::string& label = store->labels()[i];
    if (known) {
      const image::Label& of_model = labels.at((*known)[i]);
      source.class_lines += (of_model.id.empty() ? "" : of_model.id + " ") + of_model.names + '\n';
    } else {
      source.class_lines += label + '\n';
    }
  }
  return source;
}

}  // namespace hydrascope::app
