// Whether a file holds more pictures than the decoded one.
#pragma once

#include <istream>

namespace hydrascope::image {

/// True for an animation (GIF, APNG, WebP) and for a TIFF of several pages, thumbnails and masks
/// not counted; false for any other file, also a damaged one. Reads little of the file, of a GIF
/// the first picture.
bool holds_several_pictures(std::istream& file);

}  // namespace hydrascope::image
