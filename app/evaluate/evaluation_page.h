// `evaluate --html`: what an evaluation found, as a page.
#pragma once

#include "app/results/table.h"
#include "app/scores/scores.h"
#include "model/image/labels.h"
#include "viz/charts/chart_page.h"

#include <span>
#include <string>

namespace hydrascope::app {

/// The summary, calibration as a diagram and a table, the classes of the lowest top-1, the most
/// frequent confusions, and `errors`. Throws Error(failed) if writing fails.
void write_evaluation_page(const std::string& file, const Summary& summary, const Scores& scores,
                           const image::Labels& labels,
                           std::span<const viz::GalleryPicture> errors);

}  // namespace hydrascope::app
