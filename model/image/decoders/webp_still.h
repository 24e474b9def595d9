// The first picture of an animated WebP file as a WebP file of its own: OpenCV's decoder takes
// stills only, while Pillow shows the first frame.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hydrascope::image {

/// Nothing for a file that is not animated, which is decoded as it is. Throws `Error` with
/// `unsupported_format` when the first frame covers only a part of the canvas, `decode_failed` when
/// it is missing or truncated.
std::optional<std::vector<std::byte>> extract_first_webp_frame(std::span<const std::byte> bytes);

}  // namespace hydrascope::image
