// The way of each result of the pipeline: explanation here, on the calling thread; drawing and
// writing in the output stage.
#pragma once

#include "app/maps/map_choice.h"
#include "app/pipeline/pipeline.h"
#include "app/run/progress.h"
#include "app/session/session.h"
#include "app/visualize/output_stage.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

struct VisualizationOptions {
  std::filesystem::path folder;
  std::vector<std::string> endings;  ///< of what is written into it
  std::vector<std::string> words;    ///< that name the inputs, which nothing overwrites
  bool recursive = false;
  FigureOptions figure;
  bool save_raw = false;
};

class Visualization {
 public:
  /// Both sessions are loaded for their maps; `other` may be null.
  Visualization(VisualizationOptions options, ClassChoice classes, Session& session, Session* other,
                OutputStage& output, Progress& progress);

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
    SteadyColors colors;
    std::int64_t last_frame = -1;
    double next_on_page = 0;  ///< second from which on a frame may go into the page

    /// At most one frame a second goes there: a page of thousands is none.
    bool takes_for_page(const PipelineResult& frame);
  };
  /// The track that a frame belongs to, opened if it is the first.
  Track& track_of(const PipelineResult& result, viz::Size frame_size);
  void open_track(const PipelineResult& result, viz::Size frame_size);
  void close_track();
  /// Throws Error where there is no answer.
  void explain(PipelineResult& result, MapRecord& facts);

  VisualizationOptions options_;
  ClassChoice classes_;
  Session& session_;
  Session* other_;
  OutputStage& output_;
  Progress& progress_;
  OutputNames names_;
  std::optional<Track> track_;
};

}  // namespace hydrascope::app
