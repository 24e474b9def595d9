#include "app/tasks/visualization.h"

#include "app/pipeline/predictions.h"
#include "kernels/error.h"
#include "kernels/stopwatch.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {

namespace {

constexpr std::int64_t kClassesOnPage = 5;
constexpr double kShareOfMaps = 0.5;          // of the work at a picture, for the progress
constexpr double kUsualFramesPerSecond = 25;  // where the container does not say

/// Throws Error where there is none.
ModelAnswer answer_of(Session& session, const PipelineResult& result,
                      const std::vector<std::int64_t>& classes, std::int64_t topk,
                      const model::explain::BeforeStep& before_step = {}) {
  Answer answer =
      session.answer(result, {.topk = topk}, session.explained().maps, classes, before_step);
  if (answer.record.error) throw Error(*answer.record.error, answer.record.message);
  return {std::move(answer.record), std::move(answer.maps)};
}

}  // namespace

Visualization::Visualization(VisualizationOptions options, ClassChoice classes, Session& session,
                             Session* other, OutputStage& output, Progress& progress)
    : options_(std::move(options)),
      classes_(std::move(classes)),
      session_(session),
      other_(other),
      output_(output),
      progress_(progress),
      names_(options_.folder, options_.endings, options_.words, options_.recursive) {
  session_.hide_for_notes(progress_, 1 - kShareOfMaps);
}

void Visualization::add(PipelineResult& result) {
  MapRecord facts;
  static_cast<InputRecord&>(facts) = session_.record(result, 0);
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

void Visualization::explain(PipelineResult& result, MapRecord& facts) {
  const auto begin = Clock::now();
  const bool is_frame = result.frame.has_value();
  const std::vector<std::int64_t> classes =
      classes_.resolve(result.scores.first(classes_.num_best()), /*keep_repeated=*/is_frame);
  ExplainedInput input;
  double shown = 0;
  static_cast<ModelAnswer&>(input) = answer_of(
      session_, result, classes, std::max(kClassesOnPage, classes_.num_best()),
      [&](std::int64_t done, std::int64_t all) {
        if (all == 0) return;
        const double share = kShareOfMaps * static_cast<double>(done) / static_cast<double>(all);
        if (share > shown) progress_.add_part(share - shown);
        shown = std::max(shown, share);
      });
  facts.seconds += seconds_since(begin);

  input.facts = facts;
  input.picture = {result.pixels.width, result.pixels.height, std::move(result.pixels.rgb)};
  if (is_frame) {
    Track& track = track_of(result, viz::size_of(input.picture));
    input.video = track.video;
    input.frame_size = track.frame_size;
    input.on_page = track.takes_for_page(result);
    input.shown = track.colors.shown(input.maps, options_.figure);
  } else {
    close_track();
    input.name = names_.name_for(result.input.path);
    for (const InputMap& map : input.maps) input.shown.push_back(shown_map(map, options_.figure));
  }
  if (other_ != nullptr && input.on_page) {
    image::Picture picture{input.picture.width, input.picture.height, input.picture.rgb};
    input.against = answer_of(*other_, other_->look(picture), classes, kClassesOnPage);
  }
  output_.add(std::move(input));
}

Visualization::Track& Visualization::track_of(const PipelineResult& result, viz::Size frame_size) {
  const bool goes_on =
      track_ && *result.frame > track_->last_frame && track_->input == result.input.given;
  if (!goes_on) {
    close_track();
    open_track(result, frame_size);
  }
  track_->last_frame = *result.frame;
  return *track_;
}

bool Visualization::Track::takes_for_page(const PipelineResult& frame) {
  constexpr double kRounding = 1e-6;
  const double second =
      frame.time.value_or(static_cast<double>(*frame.frame) / kUsualFramesPerSecond);
  if (second < next_on_page - kRounding) return false;
  next_on_page = second + 1;
  return true;
}

void Visualization::open_track(const PipelineResult& result, viz::Size frame_size) {
  double frames_per_second = result.video.copy_rate;
  if (!(frames_per_second > 0)) frames_per_second = kUsualFramesPerSecond;
  const std::string name = names_.name_for(result.input.path);
  const std::filesystem::path maps =
      options_.save_raw ? options_.folder / (name + ".map.npy") : std::filesystem::path();
  auto video =
      std::make_shared<VideoOutput>(options_.folder / (name + ".heatmap.mp4"), maps,
                                    frames_per_second / static_cast<double>(result.video.stride));
  track_.emplace(Track{result.input.given, frame_size, std::move(video), {}});
}

void Visualization::close_track() {
  if (!track_) return;
  MapRecord facts;
  static_cast<InputRecord&>(facts) = session_.facts();
  facts.input = track_->input;
  output_.close(std::move(track_->video), std::move(facts));
  track_.reset();
}

}  // namespace hydrascope::app
