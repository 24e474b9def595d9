// The answer of a model about a picture, with maps: schema 1 of `POST /v1/explain`, which pages hold too.
#pragma once

#include "app/maps/input_map.h"
#include "app/results/classify_record.h"
#include "app/results/json.h"

#include <span>

namespace hydrascope::app {

/// The picture's record, and `maps`: each map's record, where its cells lie, and base64 of its values,
/// float32 (rows, columns), little endian. A failed picture's is its record alone.
OrderedJson explained_json(const ClassifyRecord& record, std::span<const InputMap> maps);

}  // namespace hydrascope::app
