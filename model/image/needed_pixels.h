// Pictures of which somebody needs a part: the pixels that a transform reads.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace hydrascope::image {

/// Some pixels of a picture: rows top .. top + height, columns left .. left + width.
struct PixelBox {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// The pixels that are needed of a picture of that height and width; empty: all.
using NeededPixels = std::function<PixelBox(std::int64_t height, std::int64_t width)>;

/// As in decode.h, but pixels that nobody needs may be left black. The needed pixels are those of the whole
/// picture, and damage anywhere is found as there. A picture that is turned is decoded as a whole.
Picture decode(std::span<const std::byte> bytes, const DecodeOptions& options,
               const NeededPixels& needed);
Picture read_picture(const std::filesystem::path& file, const DecodeOptions& options,
                     const NeededPixels& needed);

/// The pixels that `transform_pixels` reads of a picture of that size.
PixelBox needed_pixels(const TransformConfig& config, Size picture, const TransformPlan& plan);

}  // namespace hydrascope::image
