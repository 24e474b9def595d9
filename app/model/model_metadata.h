// What a file that this program writes says of itself besides its configuration: where it came
// from, how pictures become its input, what its classes are called, under which licence it is.
#pragma once

#include "app/model/model_source.h"
#include "app/options/options.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/image/labels.h"

#include <string>

namespace hydrascope::app {

/// What describes a model that `command` ("convert --format-only") makes of `source`: created_by,
/// transform, labels or label_names, and where `source` is a file its sha256 and its licence.
checkpoint::Metadata describe_descendant(const ModelSource& source, const std::string& command,
                                         const ResolvedTransform& transform,
                                         const ResolvedLabels& labels);

}  // namespace hydrascope::app
