// The table of options that `visualize` has beside the shared ones, and what they say.
#pragma once

#include "app/maps/map_choice.h"
#include "app/options/requests.h"
#include "app/visualize/heat_figure.h"
#include "app/visualize/output_stage.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

std::vector<Option> map_options();      // method, layer, head, class, topk, mapless
std::vector<Option> drawing_options();  // sign, cmap, alpha, caption, beside
/// output, format and what else is about files: save-raw, html.
std::vector<Option> heatmap_output_options();
std::vector<Option> heatmap_video_options();  // video-stride

/// The request of `visualize`.
struct VisualizeRequest : PicturesRequest {
  MapWords maps = {};
  std::vector<std::string> classes = {};  ///< `--class`
  std::optional<std::int64_t> topk = {};
  VoteRequest vote = {};
  std::optional<ModelRequest> against = {};
  OutputOptions outputs = {};  ///< without threads, and the page's title and facts
  std::int64_t video_stride = 1;
};
/// The form of figures by the options of `drawing_options` and `--set label-type`.
FigureOptions figure_options(const ParsedOptions& options);
/// The form of a page that shows the same as the figures.
viz::ReportOptions report_options(const FigureOptions& figure);
/// Throws Error(invalid_argument) for options that do not go together.
VisualizeRequest visualize_request(const ParsedOptions& options);

/// The outputs of a run with so many maps an input. Throws Error(invalid_argument) for several maps in one file.
OutputOptions heatmap_outputs(const VisualizeRequest& request, std::size_t num_maps, int threads);

}  // namespace hydrascope::app
