// What `diagnose` computes: the attention of some pictures, by layer and head.
#pragma once

#include "app/evaluate/diagnostics_report.h"
#include "app/model/model_source.h"
#include "app/options/requests.h"
#include "app/pictures/labelled_set.h"
#include "app/run/console.h"

#include <cstdint>

namespace hydrascope::app {

/// Over `images` of the set's pictures, evenly spread, by modules in float32 on its device;
/// `reference` may be null. Pictures that cannot be read are left out with a note. Ends early when
/// a stop is requested.
DiagnosticsReport run_diagnostics(const RunRequest& run, const ModelSource& source,
                                  const ModelSource* reference, LabelledSet set,
                                  std::int64_t images, const image::TransformConfig& transform,
                                  const Console& console);

}  // namespace hydrascope::app
