// The options that `evaluate` has beside the shared ones. Free of LibTorch.
#pragma once

#include "app/options.h"
#include "app/report.h"

#include <vector>

namespace hydrascope::app {

std::vector<Option> labelled_set_options();  // labels-csv, real-labels, no-labels, limit-images
std::vector<Option> score_options();         // require-top1, save-logits, per-class, confusions,
                                             // save-errors, most-errors
std::vector<Option> agreement_options();     // against, against-attn, ...-attn-opt, ...-precision
std::vector<Option> diagnostics_options();   // diagnostics, diagnostics-images

/// Whether a second model is asked for.
bool compares_models(const ParsedOptions& options);

/// Throws Error(invalid_argument) where options ask for more tables than `format` holds, or go
/// together and do not.
void check_evaluate_options(const ParsedOptions& options, Format format);

}  // namespace hydrascope::app
