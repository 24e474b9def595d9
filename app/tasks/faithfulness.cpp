#include "app/tasks/faithfulness.h"

#include "app/model/running_model.h"
#include "app/options/option_table.h"
#include "app/run/signal_stop.h"
#include "app/run/usage_error.h"
#include "kernels/stopwatch.h"
#include "model/explain/baseline_maps.h"
#include "model/explain/blur.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hydrascope::app {
namespace {

namespace explain = model::explain;

/// Enough for their mean to say where chance lies; each costs as much as a method.
constexpr std::int64_t kRandomDraws = 5;

std::int64_t layer_of(const std::string& word, std::int64_t depth) {
  if (word == "last") return depth - 1;
  const std::int64_t layer = to_integer(word, "`layer`");
  if (layer < 0 || layer >= depth) {
    throw UsageError("expected last or 0 to " + std::to_string(depth - 1) + ", found " + word,
                     "`layer`");
  }
  return layer;
}

std::vector<explain::Request> requests_of(const FaithfulnessRequest& request,
                                          const model::VitConfig& config, std::int64_t layer) {
  const std::vector<std::string_view> supported = explain::supported_methods(config, layer);
  const std::vector<std::string_view> wanted =
      request.methods.empty()
          ? supported
          : std::vector<std::string_view>(request.methods.begin(), request.methods.end());
  std::vector<explain::Request> requests;
  for (const std::string_view word : wanted) {
    const explain::MethodEntry* entry = explain::find_method_or_null(word);
    if (entry == nullptr) continue;  // random or centre, which are always there
    explain::require_supported(config, entry->method, layer, explain::MaplessLayers::skip,
                               request.methods_origin + " " + std::string(word));
    if (std::ranges::find(requests, entry->method, &explain::Request::method) == requests.end())
      requests.push_back({.method = entry->method, .layer = layer});
  }
  return requests;
}

}  // namespace

std::vector<std::int64_t> FaithfulnessPlan::traced_layers(const model::VitConfig& config) const {
  return explain::Explainer::traced_layers(config, requests);
}

FaithfulnessPlan plan_faithfulness(const FaithfulnessRequest& request, std::uint64_t seed,
                                   const model::VitConfig& config) {
  FaithfulnessPlan plan;
  plan.layer = layer_of(request.layer, config.depth);
  plan.requests = requests_of(request, config, plan.layer);
  plan.seed = seed;
  for (const std::string& word : request.measures) {
    const explain::Measure measure = explain::find_measure_or_null(word)->measure;
    if (std::ranges::find(plan.options.measures, measure) == plan.options.measures.end())
      plan.options.measures.push_back(measure);
  }
  plan.options.steps = request.steps;
  plan.options.patch_size = config.patch_size;
  plan.options.stop_requested = stop_requested;
  return plan;
}

FaithfulnessRun::FaithfulnessRun(FaithfulnessPlan plan, Session& session)
    : plan_(std::move(plan)), session_(session) {
  const ModelSource& source = session.source();
  plan_.options.batch_size = session.pipeline().batch_size;
  if (!plan_.requests.empty()) {
    explainer_.emplace(
        make_explainer(plan_.seed, source, plan_.requests, session.classifier().options()));
  }
  report_.model = source.name;
  report_.attention = model::to_text(source.config.attention);
  report_.layer = plan_.layer;
  report_.steps = plan_.options.steps;
  report_.random_draws = kRandomDraws;
  report_.seed = static_cast<std::int64_t>(plan_.seed);
  std::vector<std::string> maps;
  for (const explain::Request& request : plan_.requests)
    maps.emplace_back(explain::entry_of(request.method).name);
  maps.emplace_back(kCenterMap);
  maps.emplace_back(kRandomMap);
  for (const explain::Measure measure : plan_.options.measures) {
    const explain::MeasureEntry& entry = explain::entry_of(measure);
    report_.measures.push_back(
        {std::string(entry.name), std::string(entry.summary), entry.lower_is_better});
  }
  for (const std::string& map : maps) {
    for (const FaithfulnessMeasure& measure : report_.measures)
      report_.rows.push_back({map, measure.name});
  }
}

std::size_t FaithfulnessRun::pictures_at_once() const {
  const image::TransformConfig& transform = session_.transform();
  if (transform.views.keep_size) return 1;
  constexpr std::int64_t kMost = 64;
  const model::inference::Engine& engine = session_.engine();
  const std::int64_t tokens =
      engine.num_tokens(transform.img_size.height, transform.img_size.width);
  return static_cast<std::size_t>(std::clamp<std::int64_t>(
      engine.enough_tokens() / std::max<std::int64_t>(tokens, 1), 1, kMost));
}

std::vector<at::Tensor> FaithfulnessRun::make_maps(const PipelineResult& result,
                                                   std::int64_t class_index, std::size_t index) {
  const std::int64_t rows = result.model_size.height / plan_.options.patch_size;
  const std::int64_t columns = result.model_size.width / plan_.options.patch_size;
  std::vector<at::Tensor> maps;
  if (explainer_) {
    for (explain::Request& request : plan_.requests) request.class_index = class_index;
    const model::TokenGrid grid = session_.config().token_grid(rows, columns);
    for (const explain::Explanation& explanation :
         explainer_->explain(result.tokens, grid, plan_.requests)) {
      maps.push_back(explanation.map);
      keep_note(explanation);
    }
  }
  maps.push_back(explain::center_map(rows, columns));
  constexpr int kWordBits = 32;
  const std::uint64_t seed = plan_.seed;
  for (std::int64_t draw = 0; draw < kRandomDraws; ++draw) {
    maps.push_back(explain::random_map(
        rows, columns,
        std::array{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> kWordBits),
                   static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(draw)}));
  }
  return maps;
}

void FaithfulnessRun::keep_note(const explain::Explanation& explanation) {
  if (explanation.note.empty()) return;
  std::string note =
      std::string(explain::entry_of(explanation.request.method).name) + ": " + explanation.note;
  if (std::ranges::find(report_.notes, note) == report_.notes.end())
    report_.notes.push_back(std::move(note));
}

bool FaithfulnessRun::add(const PipelineResult& result, std::size_t index) {
  explain::WatchedPicture picture;
  picture.image = model_input(result);
  picture.class_index = result.logits.argmax().item<std::int64_t>();
  const auto begin = Clock::now();
  const std::vector<at::Tensor> maps = make_maps(result, picture.class_index, index);
  const double map_seconds = seconds_since(begin);
  const auto scores = explain::score_maps(session_.engine(), picture, maps, plan_.options);
  if (!scores) return false;
  report_.map_seconds += map_seconds;
  report_.blur_sigma = explain::blur_sigma(result.model_size.height, result.model_size.width);
  ++report_.images;
  // The random maps come last, and share one row per measure.
  const std::size_t num_measures = plan_.options.measures.size();
  const std::size_t first_random = report_.rows.size() - num_measures;
  for (std::size_t row = 0; row < report_.rows.size(); ++row) {
    const bool is_random = row >= first_random;
    const std::size_t draws = is_random ? kRandomDraws : 1;
    double area = 0;
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const explain::FaithfulnessScore& score = (*scores)[row + draw * num_measures];
      area += score.area / static_cast<double>(draws);
      report_.rows[row].seconds += score.seconds;
    }
    report_.rows[row].areas.push_back(area);
  }
  return true;
}

}  // namespace hydrascope::app
