// Facts of a model besides its configuration, in files and records that this program writes: where it
// came from, how pictures become its input, what its classes are called, under which licence it is.
#pragma once

#include "app/model/model_source.h"
#include "app/model/resolve_labels.h"
#include "app/model/resolved_transform.h"
#include "app/options/options.h"
#include "model/checkpoint/formats/safetensors.h"
#include "model/image/labels.h"

#include <map>
#include <optional>
#include <string>

namespace hydrascope::app {

/// The description of a model that `command` ("convert --format-only") makes of `source`: created_by,
/// transform, labels or label_names, and where `source` is a file its sha256 and its licence.
checkpoint::Metadata describe_descendant(const ModelSource& source, const std::string& command,
                                         const ResolvedTransform& transform,
                                         const ResolvedLabels& labels);

/// The parts of a model's function beside its weights: the options of its layers (attention_spec.h), and
/// the options of position rules, "rel_pos" and "pos_embed" where they are not as in a plain ViT,
/// "pos_interp" and "overview" where they are not those of timm.
std::map<std::string, std::string> computed_options(const model::VitConfig& config);

/// Top-1 in percent, as the card beside the model's file says it, MODEL.md: the first row of its table with
/// a column "top-1". Nothing where there is no card, or the model computes other attention than it was
/// trained with.
std::optional<double> top1_of_card(const ModelSource& source);

}  // namespace hydrascope::app
