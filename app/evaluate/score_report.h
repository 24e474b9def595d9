// The tables and the chart of the scores of a labelled set.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/results/report.h"
#include "app/scores/scores.h"
#include "model/image/labels.h"

namespace hydrascope::app {

/// Adds the tables of `--per-class` and `--set confusions` or writes them into their files, the table of
/// reliability with its chart, and for the page the classes of the lowest top-1 and the most frequent
/// confusions. Throws Error(unwritable).
void add_score_tables(const ScoreRequest& wanted, const Scores& scores, const image::Labels& labels,
                      Report& report);

}  // namespace hydrascope::app
