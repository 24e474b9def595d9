// Whether a file holds more than the picture that is decoded.
#pragma once

#include <istream>

namespace hydrascope::image {

/// True of an animation (GIF, APNG, WebP) and of a TIFF of several pages, thumbnails and masks not
/// counted; false where the file is none, or makes no sense. Reads little of it, of a GIF its first
/// picture.
bool holds_several_pictures(std::istream& file);

}  // namespace hydrascope::image
