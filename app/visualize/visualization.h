// What happens to each result of the pipeline: explanation here, on the calling thread; drawing and
// writing in the output stage.
#pragma once

#include "app/pipeline/pipeline.h"
#include "app/run/progress.h"
#include "app/visualize/map_choice.h"
#include "app/visualize/map_explainer.h"
#include "app/visualize/output_stage.h"
#include "model/image/labels.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

class OtherModel;

struct VisualizationOptions {
  std::filesystem::path folder;
  std::vector<std::string> endings;  ///< of what is written into it
  std::vector<std::string> words;    ///< that name the inputs, which nothing overwrites
  bool recursive = false;
  FigureOptions figure;
  bool save_raw = false;
  double smoothing = 0;                   ///< of maps over the frames of a video
  std::optional<double> frames_as_video;  ///< frames a second; pictures become one video
  image::TransformConfig transform;
  std::int64_t max_pixels = 0;
  InputRecord run;  ///< what the records of all inputs have in common: device, attention, ...
};

class Visualization {
 public:
  /// `other` may be null.
  Visualization(VisualizationOptions options, ClassChoice classes, const image::Labels& labels,
                MapExplainer& explainer, OtherModel* other, OutputStage& output,
                Progress& progress);

  /// Takes the picture out of `result`. Throws what the output stage throws.
  void add(PipelineResult& result);
  /// Completes the last video; the output stage is left to the caller.
  void finish();

 private:
  /// A video in the making.
  struct Track {
    std::string input;
    viz::Size frame_size;  ///< of the first picture
    std::shared_ptr<VideoOutput> video;
    SteadyMaps steady;
    std::int64_t last_frame = -1;
    double next_on_page = 0;  ///< second from which on a frame may go into the page

    /// At most one frame a second goes there: a page of thousands is none.
    bool takes_for_page(const PipelineResult& frame);
  };
  [[nodiscard]] MapRecord facts_of(const PipelineResult& result) const;
  /// The track that a frame belongs to, opened if it is the first.
  Track& track_of(const PipelineResult& result, viz::Size frame_size);
  void open_track(const PipelineResult& result, viz::Size frame_size);
  void close_track();
  void explain(PipelineResult& result, MapRecord facts);

  VisualizationOptions options_;
  ClassChoice classes_;
  const image::Labels& labels_;
  MapExplainer& explainer_;
  OtherModel* other_;
  OutputStage& output_;
  Progress& progress_;
  OutputNames names_;
  std::optional<Track> track_;
  std::int64_t frames_ = 0;  // of a video made of pictures
  std::int64_t seen_ = 0;    // results
};

}  // namespace hydrascope::app
