// The first image file directory of a TIFF structure: a TIFF file, or the Exif block of another
// format. TIFF 6.0, section 2.
#pragma once

#include "model/image/decoders/byte_view.h"

#include <cstdint>

namespace hydrascope::image {

struct TiffDirectory {
  std::int64_t width = 0;
  std::int64_t height = 0;
  int orientation = 1;  ///< 1..8, the Exif numbering
  std::uint32_t photometric = 0;
  std::uint32_t samples_per_pixel = 1;
};

/// What is missing or damaged keeps its default.
TiffDirectory read_tiff_directory(ByteView file);

}  // namespace hydrascope::image
