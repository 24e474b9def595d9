// The computation of `diagnose`: the attention of some pictures, by layer and head.
#pragma once

#include "app/evaluate/diagnostics_report.h"
#include "app/pictures/labelled_set.h"
#include "app/session/session.h"

#include <cstdint>

namespace hydrascope::app {

/// Over `images` of the set's pictures, evenly spread, by modules in float32 on its device, of which
/// neither session has to be loaded; `reference` may be null. Pictures that cannot be read are left
/// out with a note. Ends early when a stop is requested.
DiagnosticsReport run_diagnostics(Session& session, const Session* reference, LabelledSet set,
                                  std::int64_t images);

}  // namespace hydrascope::app
