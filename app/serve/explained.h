// Maps as responses: numbers in JSON, an array, a picture.
#pragma once

#include "app/results/json.h"
#include "app/session/service.h"
#include "app/visualize/heat_figure.h"

#include <span>
#include <string>

namespace hydrascope::app {

/// `explained_json`, or the record with the row of the patch that was asked for, its values in base64 too.
OrderedJson answered_json(const Answer& answer);
/// A .npy file of float32 (rows, columns), or (maps, rows, columns) where there are several. Throws
/// Error(invalid_argument) for maps of several sizes.
std::string explained_array(const Answer& answer);
/// A PNG as `visualize` draws it over the picture. Throws what decoding throws.
std::string explained_picture(const Answer& answer, std::span<const std::byte> encoded,
                              const image::DecodeOptions& decode, const FigureOptions& figure);
/// An embedding, with what the record says of the run.
OrderedJson embedded_json(const Answer& answer);

}  // namespace hydrascope::app
