#include "app/visualize/visualization.h"

#include "app/pipeline/predictions.h"
#include "app/run/explanation_threads.h"
#include "app/visualize/other_model.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"

#include <ATen/ops/amax.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

namespace hydrascope::app {

namespace {

using model::explain::class_token_share;
using model::explain::Explanation;
using model::explain::Request;

Request request_for(const MapChoice& choice, std::int64_t class_index,
                    model::explain::MaplessLayers mapless) {
  return {choice.method, choice.layer, class_index, choice.head.kind != Head::Kind::mean, mapless};
}

/// Nothing depends on the class until `explain`.
std::vector<Request> requests_for(std::span<const MapChoice> choices,
                                  model::explain::MaplessLayers mapless) {
  std::vector<Request> requests;
  for (const MapChoice& choice : choices) requests.push_back(request_for(choice, 0, mapless));
  return requests;
}

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

}  // namespace

std::vector<std::int64_t> MapExplainer::traced_layers(const model::VitConfig& config,
                                                      std::span<const MapChoice> choices,
                                                      model::explain::MaplessLayers mapless) {
  return model::explain::Explainer::traced_layers(config, requests_for(choices, mapless));
}

MapExplainer::MapExplainer(std::uint64_t seed, const ModelSource& source,
                           std::vector<MapChoice> choices, model::explain::MaplessLayers mapless,
                           c10::Device device)
    : config_(source.config),
      choices_(std::move(choices)),
      mapless_(mapless),
      explainer_(make_explainer(seed, source, requests_for(choices_, mapless), device)) {}

std::vector<InputMap> MapExplainer::explain(const at::Tensor& tokens, const model::TokenGrid& grid,
                                            std::span<const Prediction> classes) {
  std::vector<Request> requests;
  struct Wanted {
    const MapChoice* choice;
    const Prediction* of_class;
    std::size_t request;
  };
  std::vector<Wanted> wanted;
  for (const MapChoice& choice : choices_) {
    const bool of_class = model::explain::entry_of(choice.method).of_class;
    for (const Prediction& one : classes.first(of_class ? classes.size() : 1)) {
      const Request request = request_for(choice, one.index, mapless_);
      // The heads of a layer share one request.
      const auto same = std::ranges::find_if(requests, [&](const Request& other) {
        return other.method == request.method && other.layer == request.layer &&
               other.class_index == request.class_index && other.per_head == request.per_head;
      });
      wanted.push_back({&choice, &one, static_cast<std::size_t>(same - requests.begin())});
      if (same == requests.end()) requests.push_back(request);
    }
  }
  const ExplanationThreads threads(tokens.size(0) * tokens.size(1));
  const std::vector<Explanation> explanations = explainer_.explain(tokens, grid, requests);
  std::vector<InputMap> maps;
  for (const auto& [choice, of_class, request] : wanted) {
    const Explanation& explanation = explanations.at(request);
    const at::Tensor map = heat_of(explanation.map, choice->head);
    const at::Tensor prefix = heat_of(explanation.prefix, choice->head);
    const double total = (map.sum(at::kDouble) + prefix.sum(at::kDouble)).item<double>();
    const bool is_additive =
        choice->method == model::explain::Method::hydra && choice->head.kind != Head::Kind::maximum;
    maps.push_back({*choice, *of_class, heat_map(map), explanation.is_signed,
                    class_token_share(config_, map, prefix), total, is_additive, explanation.note,
                    explanation.rules});
  }
  return maps;
}

namespace {

constexpr std::int64_t kClassesOnPage = 5;
constexpr double kUsualFramesPerSecond = 25;  // where the container does not say

/// The folder that pictures lie in names the video made of them.
std::filesystem::path folder_name(const std::filesystem::path& picture) {
  std::filesystem::path name = picture.parent_path().filename();
  const bool says_nothing = name.empty() || name == "." || name == "..";
  return says_nothing ? std::filesystem::path("frames") : name;
}

}  // namespace

Visualization::Visualization(VisualizationOptions options, ClassChoice classes,
                             const image::Labels& labels, const model::VitConfig& config,
                             MapExplainer& explainer, OtherModel* other, OutputStage& output,
                             Progress& progress)
    : options_(std::move(options)),
      classes_(std::move(classes)),
      labels_(labels),
      config_(config),
      explainer_(explainer),
      other_(other),
      output_(output),
      progress_(progress),
      names_(options_.folder, options_.endings, options_.inputs) {}

void Visualization::add(PipelineResult& result) {
  ++seen_;
  if (options_.frames_as_video && !result.error) {
    if (result.frame) {
      if (*result.frame > 0) return;  // its first frame has said so
      result.error = ErrorCode::unsupported_format;
      result.message = "is a video; --frames-as-video makes one of pictures";
      result.frame.reset();
    } else {
      result.frame = frames_++;
    }
  }
  MapRecord facts = facts_of(result);
  if (!result.error) {
    try {
      explain(result, facts);
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory && error.code() != ErrorCode::failed) throw;
      facts.error = error.code();
      facts.message = error.what();
    }
  }
  output_.add_failure(std::move(facts));
}

void Visualization::finish() { close_track(); }

MapRecord Visualization::facts_of(const PipelineResult& result) const {
  MapRecord facts = options_.run;
  facts.input = result.input.given;
  facts.frame = result.frame;
  facts.error = result.error;
  facts.message = result.message;
  facts.width = result.picture.width;
  facts.height = result.picture.height;
  facts.model_size = {result.model_size.height, result.model_size.width};
  if (result.views) {
    facts.views = image::views_name(options_.transform);
    facts.num_views = std::ssize(result.views->plans);
  }
  facts.note = result.note;
  facts.seconds = result.seconds;
  return facts;
}

void Visualization::explain(PipelineResult& result, MapRecord facts) {
  const auto begin = Clock::now();
  const image::TransformPlan plan =
      image::plan_transform(options_.transform, result.picture, options_.max_pixels);
  ExplainedInput input;
  input.placement = placement_of(plan, result.picture, config_.patch_size);
  input.top = top_classes(result, std::max(kClassesOnPage, classes_.num_best()), labels_);
  std::vector<std::int64_t> best;
  for (const Prediction& prediction : input.top) {
    if (std::cmp_less(best.size(), classes_.num_best())) best.push_back(prediction.index);
  }
  const bool is_frame = result.frame.has_value();
  const std::vector<std::int64_t> chosen = classes_.resolve(best, /*keep_repeated=*/is_frame);
  const std::vector<Prediction> classes = chosen_classes(result, chosen, labels_);
  input.maps = result.views ? maps_of_views(result, classes)
                            : explainer_.explain(result.tokens, grid_of(input.placement), classes);
  facts.seconds += seconds_since(begin);

  input.facts = std::move(facts);
  input.picture = {result.pixels.width, result.pixels.height, std::move(result.pixels.rgb)};
  if (is_frame) {
    Track& track = track_of(result, viz::size_of(input.picture));
    input.video = track.video;
    input.frame_size = track.frame_size;
    input.on_page = track.takes_for_page(*result.frame);
    input.shown = track.steady.add(input.maps, options_.figure);
  } else {
    close_track();
    input.name = names_.name_for(result.input.path);
    for (const InputMap& map : input.maps) input.shown.push_back(shown_map(map, options_.figure));
  }
  if (other_ != nullptr && input.on_page) {
    image::Picture picture{input.picture.width, input.picture.height, std::move(input.picture.rgb)};
    input.against = other_->explain(picture, chosen, kClassesOnPage, labels_, options_.figure,
                                    options_.max_pixels);
    input.picture.rgb = std::move(picture.rgb);
  }
  output_.add(std::move(input));
}

std::vector<InputMap> Visualization::maps_of_views(const PipelineResult& result,
                                                   const std::vector<Prediction>& classes) {
  const PictureInViews& views = *result.views;
  const auto view_of = [&](const Prediction& one) {
    return views.best.classes().at(static_cast<std::size_t>(one.index)).view;
  };
  std::vector<InputMap> maps;
  std::set<std::size_t> explained;
  for (const Prediction& first : classes) {
    const std::size_t view = view_of(first);
    if (!explained.insert(view).second) continue;
    std::vector<Prediction> found_there;
    std::ranges::copy_if(classes, std::back_inserter(found_there),
                         [&](const Prediction& one) { return view_of(one) == view; });
    const viz::Placement placement =
        placement_of(views.plans.at(view), result.picture, config_.patch_size);
    for (InputMap& map :
         explainer_.explain(views.tokens.at(view), grid_of(placement), found_there)) {
      map.placement = placement;
      maps.push_back(std::move(map));
    }
  }
  return maps;
}

model::TokenGrid Visualization::grid_of(const viz::Placement& placement) const {
  return config_.token_grid(placement.vertical.cells, placement.horizontal.cells);
}

Visualization::Track& Visualization::track_of(const PipelineResult& result, viz::Size frame_size) {
  const bool goes_on = track_ && *result.frame > track_->last_frame &&
                       (options_.frames_as_video || track_->input == result.input.given);
  if (!goes_on) {
    close_track();
    open_track(result, frame_size);
  }
  track_->last_frame = *result.frame;
  return *track_;
}

bool Visualization::Track::takes_for_page(std::int64_t frame) {
  constexpr double kRounding = 1e-6;
  const double second = static_cast<double>(frame) / frames_per_second;
  if (second < next_on_page - kRounding) return false;
  next_on_page = second + 1;
  return true;
}

void Visualization::open_track(const PipelineResult& result, viz::Size frame_size) {
  double frames_per_second = result.video.frames_per_second;
  if (!(frames_per_second > 0)) frames_per_second = kUsualFramesPerSecond;
  if (options_.frames_as_video) frames_per_second = *options_.frames_as_video;
  const std::string name = names_.name_for(options_.frames_as_video ? folder_name(result.input.path)
                                                                    : result.input.path);
  const std::filesystem::path maps =
      options_.save_raw ? options_.folder / (name + ".map.npy") : std::filesystem::path();
  auto video =
      std::make_shared<VideoOutput>(options_.folder / (name + ".heatmap.mp4"), maps,
                                    frames_per_second / static_cast<double>(result.video.stride));
  track_.emplace(Track{result.input.given, frames_per_second, frame_size, std::move(video),
                       SteadyMaps(options_.smoothing)});
  if (result.video.num_frames > 0) {
    const std::int64_t stride = result.video.stride;
    progress_.set_total(seen_ - 1 + (result.video.num_frames + stride - 1) / stride);
  }
}

void Visualization::close_track() {
  if (!track_) return;
  MapRecord facts = options_.run;
  facts.input = track_->input;
  output_.close(std::move(track_->video), std::move(facts));
  track_.reset();
}

}  // namespace hydrascope::app
