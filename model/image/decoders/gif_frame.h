// The first picture of a GIF and its place on the screen (GIF89a specification).
#pragma once

#include "model/image/decoders/byte_view.h"

#include <cstdint>
#include <optional>

namespace hydrascope::image {

struct GifFrame {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool is_interlaced = false;
  std::size_t palette = 0;  ///< place of its colours, 0: it has none
  std::size_t num_colours = 0;
  std::optional<std::uint32_t> transparent;  ///< the number that has no colour
  std::size_t data = 0;                      ///< place of the code size, its blocks behind it
};

/// Nothing if the file ends before.
std::optional<GifFrame> find_gif_frame(ByteView file);

}  // namespace hydrascope::image
