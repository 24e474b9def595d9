// Turns pictures that were stored on their side.
#pragma once

#include "model/image/decode.h"

namespace hydrascope::image {

/// Rotates and mirrors `picture`, stored with an Exif orientation of 1 to 8, so that it is upright.
/// Large ones are turned in place, without a second copy.
void make_upright(Picture& picture, int orientation);

}  // namespace hydrascope::image
