// Which way up a picture is, in the places that Pillow's ImageOps.exif_transpose looks at: an Exif
// block, or where that does not say, XMP.
#pragma once

#include "model/image/decoders/byte_view.h"

#include <optional>

namespace hydrascope::image {

/// The orientation in a block of Exif, which may begin with "Exif\0\0"; nothing where that has no orientation, 1 for
/// one that means nothing.
std::optional<int> exif_orientation(ByteView block);
/// The orientation in XMP: the first `tiff:Orientation`, as an attribute or as an element.
std::optional<int> xmp_orientation(ByteView text);
/// The orientation in a PNG's chunks: `eXIf`, then the "Raw profile type exif" that ImageMagick writes as text, then
/// XMP; of several the last. Compressed texts are read up to a megabyte, as Pillow does.
int png_orientation(ByteView file);

}  // namespace hydrascope::image
