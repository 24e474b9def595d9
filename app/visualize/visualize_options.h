// The table of options that `visualize` has beside the shared ones, and what they say.
#pragma once

#include "app/options/options.h"
#include "app/visualize/heat_figure.h"
#include "app/visualize/map_choice.h"
#include "app/visualize/output_stage.h"

#include <optional>
#include <vector>

namespace hydrascope::app {

std::vector<Option> map_options();      // method, layer, head, class, topk, mapless
std::vector<Option> drawing_options();  // sign, cmap, alpha, fade, blocks, colorbar, ..., font
/// output, format and what else is about files: image-format, quality, save-raw, html.
std::vector<Option> heatmap_output_options();
std::vector<Option> heatmap_video_options();  // video-stride, smooth, frames-as-video

/// `--method`, `--layer`, `--head`, `--mapless`; `of_class` is the caller's to set.
MapWords map_words(const ParsedOptions& options);
/// `--topk`, if it is given.
std::optional<std::int64_t> topk(const ParsedOptions& options);
/// Throws Error(invalid_argument) for a colormap that does not exist.
FigureOptions figure_options(const ParsedOptions& options);
/// All but the page's title and facts. `num_maps` of an input decides whether a font is needed.
/// Throws also what `viz::require_encoder` and `viz::Font` throw.
OutputOptions heatmap_outputs(const ParsedOptions& options, std::size_t num_maps, int threads);

}  // namespace hydrascope::app
