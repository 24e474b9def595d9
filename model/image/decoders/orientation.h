// Which way up a picture is, by the places that Pillow's ImageOps.exif_transpose looks at: an Exif
// block, or XMP if Exif does not say.
#pragma once

#include "model/image/decoders/byte_view.h"

#include <optional>

namespace hydrascope::image {

/// The orientation in a block of Exif, which may begin with "Exif\0\0"; nothing without one, 1 for
/// one without a meaning.
std::optional<int> exif_orientation(ByteView block);
/// The orientation in XMP: the first `tiff:Orientation`, as an attribute or as an element.
std::optional<int> xmp_orientation(ByteView text);
/// The orientation in a PNG's chunks: `eXIf`, then the "Raw profile type exif" that ImageMagick
/// writes as text, then XMP; the last of several. Compressed texts are read up to a megabyte, as
/// Pillow does.
int png_orientation(ByteView file);

}  // namespace hydrascope::image
