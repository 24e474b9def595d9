#include "app/session/map_explainer.h"

#include "app/model/running_model.h"
#include "model/inference/one_torch_thread.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>

namespace hydrascope::app {
namespace {

using model::explain::class_token_share;
using model::explain::Explanation;
using model::explain::memory_share;
using model::explain::Request;
using model::inference::OneTorchThread;

Request request_for(const MapChoice& choice, std::int64_t class_index,
                    model::explain::MaplessLayers mapless) {
  return {choice.method, choice.layer, class_index, choice.head.kind != Head::Kind::mean, mapless};
}

std::vector<Request> requests_to_find(std::int64_t depth) {
  std::vector<Request> requests;
  for (std::int64_t layer = depth / 2; layer < depth; ++layer)
    requests.push_back({model::explain::Method::attention, layer});
  return requests;
}

/// Nothing depends on the class until `explain`.
std::vector<Request> requests_for(const TracedFor& wanted, std::int64_t depth) {
  std::vector<Request> requests;
  for (const MapChoice& choice : wanted.maps)
    requests.push_back(request_for(choice, 0, wanted.mapless));
  if (wanted.patches) requests.push_back({model::explain::Method::hydra, depth - 1});
  if (wanted.finds) std::ranges::copy(requests_to_find(depth), std::back_inserter(requests));
  return requests;
}

/// Keeps the map of a token that attends to no patch from being no number.
constexpr double kNearlyNothing = 1e-30;

/// The heat of the map or of its prefix tokens: all heads', the largest, or one's.
at::Tensor heat_of(const at::Tensor& heat, const Head& head) {
  if (head.kind == Head::Kind::maximum) return heat.amax(0);
  return head.kind == Head::Kind::one ? heat.select(0, head.index) : heat;
}

viz::HeatMap heat_map(const at::Tensor& heat) {
  const at::Tensor map = heat.contiguous();
  viz::HeatMap result{map.size(0), map.size(1), {}};
  const float* values = map.const_data_ptr<float>();
  result.values.assign(values, values + map.numel());
  return result;
}

/// A view of a picture as a picture of its own.
PipelineResult as_picture(const PipelineResult& result, const SeenView& view) {
  PipelineResult seen;
  seen.picture = {view.box.height, view.box.width};
  seen.plan = view.plan;
  seen.tokens = view.tokens;
  seen.features = result.features;
  return seen;
}

/// The result itself, or the view of all of it.
PipelineResult of_whole(const PipelineResult& result) {
  for (const SeenView& view : result.views)
    if (view.box.width == result.picture.width && view.box.height == result.picture.height)
      return as_picture(result, view);
  return result;
}

/// The part of a view's grid along an edge, in cells of the grid over the picture: its begin, and its cell's length.
struct Extent {
  double begin;
  double cell;
};
Extent extent_of(std::int64_t begin, std::int64_t length, std::int64_t seen, std::int64_t output,
                 std::int64_t cells, double unit) {
  const double covered =
      static_cast<double>(length) * static_cast<double>(output) / static_cast<double>(seen);
  return {static_cast<double>(begin) / unit, covered / unit / static_cast<double>(cells)};
}

/// Adds the heat of a view, `share` of it, to a map over the picture whose cells have `unit` pixels: read between
/// the view's cells as when it is drawn, with as much in a cell as its part of the area.
void add_view(viz::HeatMap& all, const viz::HeatMap& map, const SeenView& view, double share,
              double unit) {
  const Extent down = extent_of(view.box.top, view.box.height, view.plan.cropped.height,
                                view.plan.output.height, map.rows, unit);
  const Extent across = extent_of(view.box.left, view.box.width, view.plan.cropped.width,
                                  view.plan.output.width, map.columns, unit);
  const auto cells_from = [](double begin, std::int64_t most) {
    return std::clamp<std::int64_t>(std::llround(begin), 0, most);
  };
  const auto end_of = [](std::int64_t begin, std::int64_t length, double unit_) {
    return static_cast<double>(begin + length) / unit_;
  };
  const std::int64_t bottom = cells_from(end_of(view.box.top, view.box.height, unit), all.rows);
  const std::int64_t right = cells_from(end_of(view.box.left, view.box.width, unit), all.columns);
  const double scale = share / (down.cell * across.cell);
  for (std::int64_t row = cells_from(down.begin, all.rows); row < bottom; ++row) {
    for (std::int64_t column = cells_from(across.begin, all.columns); column < right; ++column) {
      const double y = (static_cast<double>(row) + 0.5 - down.begin) / down.cell - 0.5;
      const double x = (static_cast<double>(column) + 0.5 - across.begin) / across.cell - 0.5;
      const auto at = [&](std::int64_t i, std::int64_t j) {
        i = std::clamp<std::int64_t>(i, 0, map.rows - 1);
        j = std::clamp<std::int64_t>(j, 0, map.columns - 1);
        return static_cast<double>(map.values[static_cast<std::size_t>(i * map.columns + j)]);
      };
      const double top = std::floor(y);
      const double left = std::floor(x);
      const auto i = static_cast<std::int64_t>(top);
      const auto j = static_cast<std::int64_t>(left);
      const double heat =
          (at(i, j) * (left + 1 - x) + at(i, j + 1) * (x - left)) * (top + 1 - y) +
          (at(i + 1, j) * (left + 1 - x) + at(i + 1, j + 1) * (x - left)) * (y - top);
      all.values[static_cast<std::size_t>(row * all.columns + column)] +=
          static_cast<float>(scale * heat);
    }
  }
}

// Views that say less of a class are left out of its map.
constexpr double kMostSaid = 0.9;
constexpr std::size_t kMostViews = 8;

/// The views that say most of a class, each with its share of what these say.
std::vector<std::pair<const SeenView*, double>> views_of(const PipelineResult& result,
                                                         std::int64_t index) {
  std::vector<std::pair<const SeenView*, double>> views;
  double all = 0;
  for (const SeenView& view : result.views) {
    const double said = view.weight * view.probabilities.at(static_cast<std::size_t>(index));
    views.emplace_back(&view, said);
    all += said;
  }
  std::ranges::stable_sort(views, std::ranges::greater(),
                           &std::pair<const SeenView*, double>::second);
  double sum = 0;
  std::size_t count = 0;
  while (count < std::min(kMostViews, views.size()) && (count == 0 || sum < kMostSaid * all))
    sum += views[count++].second;
  views.resize(count);
  for (auto& [view, share] : views) share = sum > 0 ? share / sum : 1 / static_cast<double>(count);
  return views;
}

}  // namespace

std::vector<std::int64_t> MapExplainer::traced_layers(const model::VitConfig& config,
                                                      const TracedFor& wanted) {
  return model::explain::Explainer::traced_layers(config, requests_for(wanted, config.depth));
}

MapExplainer::MapExplainer(std::uint64_t seed, const ModelSource& source, TracedFor wanted,
                           const model::inference::InferenceOptions& classifier)
    : config_(source.config),
      wanted_(std::move(wanted)),
      class_vectors_of_(source.class_vectors_of),
      remembers_(!classifier.memory.empty()),
      explainer_(make_explainer(seed, source, requests_for(wanted_, config_.depth), classifier)) {}

model::TokenGrid MapExplainer::grid_of(const image::TransformPlan& plan) const {
  return config_.token_grid(plan.output.height / config_.patch_size,
                            plan.output.width / config_.patch_size);
}

viz::HeatMap MapExplainer::patch_row(const PipelineResult& of_picture, std::int64_t layer,
                                     std::int64_t row, std::int64_t column) {
  const PipelineResult result = of_whole(of_picture);
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  return heat_map(explainer_.patch_row(result.tokens, grid_of(result.plan), layer, row, column));
}

zoom::AttentionMap MapExplainer::attention(const PipelineResult& result) {
  const model::TokenGrid grid = grid_of(result.plan);
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  at::Tensor sum = at::zeros({grid.rows, grid.columns}, at::kDouble);
  for (const Explanation& layer :
       explainer_.explain(result.tokens, grid, requests_to_find(config_.depth)))
    sum += layer.map.clamp_min(0);  // some mechanisms' maps have signs
  zoom::AttentionMap map{grid.rows, grid.columns, config_.patch_size};
  const at::Tensor mean = (sum + kNearlyNothing) / (sum + kNearlyNothing).sum();
  map.values.assign(mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + mean.numel());
  return map;
}

at::Tensor MapExplainer::patch_tokens(const PipelineResult& of_picture) {
  const PipelineResult result = of_whole(of_picture);
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  return explainer_.patch_tokens(result.tokens, grid_of(result.plan));
}

std::vector<InputMap> MapExplainer::explain(const PipelineResult& result,
                                            std::span<const Prediction> classes,
                                            std::span<const MapChoice> choices,
                                            const model::explain::BeforeStep& before_step) {
  if (result.views.empty()) return explain_one(result, classes, choices, before_step);
  // The maps of a class are computed together; those of a choice come together.
  std::vector<std::pair<std::size_t, InputMap>> maps;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::vector<MapChoice> of_class;
    std::vector<std::size_t> places;
    for (std::size_t j = 0; j < choices.size(); ++j) {
      if (i > 0 && !model::explain::entry_of(choices[j].method).of_class) continue;
      of_class.push_back(choices[j]);
      places.push_back(j);
    }
    std::vector<InputMap> found = explain_views(result, classes[i], of_class, before_step);
    for (std::size_t j = 0; j < found.size(); ++j)
      maps.emplace_back(places[j], std::move(found[j]));
  }
  std::ranges::stable_sort(maps, {}, &std::pair<std::size_t, InputMap>::first);
  std::vector<InputMap> ordered;
  for (auto& [place, map] : maps) ordered.push_back(std::move(map));
  return ordered;
}

std::vector<InputMap> MapExplainer::explain_views(const PipelineResult& result,
                                                  const Prediction& of_class,
                                                  std::span<const MapChoice> choices,
                                                  const model::explain::BeforeStep& before_step) {
  constexpr double kCells = 68;        // along the shorter edge
  constexpr std::int64_t kMost = 544;  // along any
  const image::Size& picture = result.picture;
  const double unit =
      std::max(static_cast<double>(std::min(picture.height, picture.width)) / kCells,
               static_cast<double>(std::max(picture.height, picture.width)) / kMost);
  const auto cells = [&](std::int64_t edge) {
    return std::max<std::int64_t>(std::llround(static_cast<double>(edge) / unit), 1);
  };
  std::vector<InputMap> mixed;
  for (const auto& [view, share] : views_of(result, of_class.index)) {
    std::vector<InputMap> maps =
        explain_one(as_picture(result, *view), {&of_class, 1}, choices, before_step);
    const bool is_first = mixed.empty();
    for (std::size_t i = 0; i < maps.size(); ++i) {
      InputMap& map = maps[i];
      viz::HeatMap heat{cells(picture.height), cells(picture.width), {}};
      heat.values.resize(static_cast<std::size_t>(heat.rows * heat.columns));
      if (is_first) {
        InputMap& first = mixed.emplace_back(map);
        first.map = std::move(heat);
        first.own_share = first.total = 0;
        first.is_additive = false;
        first.placement = {
            {picture.height, first.map.rows, 0, first.map.rows, first.map.rows, first.map.rows},
            {picture.width, first.map.columns, 0, first.map.columns, first.map.columns,
             first.map.columns}};
      }
      // Maps of weights and of relevance count by their forms: their sums differ from view to view.
      double sum = 1;
      if (!map.is_signed) {
        sum = 0;
        for (const float value : map.map.values) sum += std::max(value, 0.F);
      }
      add_view(mixed[i].map, map.map, *view, sum > 0 ? share / sum : 0, unit);
      mixed[i].own_share += share * map.own_share;
      mixed[i].total += share * map.total;
    }
  }
  return mixed;
}

std::vector<InputMap> MapExplainer::explain_one(const PipelineResult& result,
                                                std::span<const Prediction> classes,
                                                std::span<const MapChoice> choices,
                                                const model::explain::BeforeStep& before_step) {
  if (!frames_.follows(result)) explainer_.forget();
  if (class_vectors_of_) explainer_.set_class_vectors(class_vectors_of_(result.features));
  if (classes.empty()) return {};
  std::vector<Request> requests;
  struct Wanted {
    const MapChoice* choice;
    const Prediction* of_class;
    std::size_t request;
  };
  std::vector<Wanted> wanted;
  for (const MapChoice& choice : choices) {
    const bool of_class = model::explain::entry_of(choice.method).of_class;
    for (const Prediction& one : classes.first(of_class ? classes.size() : 1)) {
      const Request request = request_for(choice, one.index, wanted_.mapless);
      // The heads of a layer share one request.
      const auto same = std::ranges::find_if(requests, [&](const Request& other) {
        return other.method == request.method && other.layer == request.layer &&
               other.class_index == request.class_index && other.per_head == request.per_head;
      });
      wanted.push_back({&choice, &one, static_cast<std::size_t>(same - requests.begin())});
      if (same == requests.end()) requests.push_back(request);
    }
  }
  const OneTorchThread one(has_few_tokens(result.tokens.size(0) * result.tokens.size(1)));
  const std::vector<Explanation> explanations =
      explainer_.explain(result.tokens, grid_of(result.plan), requests, before_step);
  std::vector<InputMap> maps;
  for (const auto& [choice, of_class, request] : wanted) {
    const Explanation& explanation = explanations.at(request);
    const at::Tensor map = heat_of(explanation.map, choice->head);
    const at::Tensor prefix = heat_of(explanation.prefix, choice->head);
    const double own = (map.sum(at::kDouble) + prefix.sum(at::kDouble)).item<double>();
    const double earlier =
        remembers_ ? heat_of(explanation.earlier, choice->head).item<double>() : 0;
    const bool is_additive =
        choice->method == model::explain::Method::hydra && choice->head.kind != Head::Kind::maximum;
    maps.push_back({*choice, *of_class, heat_map(map), explanation.is_signed,
                    class_token_share(config_, map, prefix),
                    remembers_ ? std::optional(memory_share(own, earlier)) : std::nullopt,
                    own + earlier, is_additive, explanation.note, explanation.rules,
                    placement_of(result.plan, result.picture, config_.patch_size)});
  }
  return maps;
}

}  // namespace hydrascope::app
