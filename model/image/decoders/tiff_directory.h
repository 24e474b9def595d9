// The first image file directory of a TIFF structure: a TIFF or BigTIFF file, or the Exif block of
// another format. TIFF 6.0, section 2.
#pragma once

#include "model/image/decoders/byte_view.h"

#include <cstdint>
#include <vector>

namespace hydrascope::image {

struct TiffDirectory {
  bool is_big_endian = false;
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool has_orientation = false;
  int orientation = 1;  ///< 1..8, the Exif numbering
  std::uint32_t compression = 1;
  std::uint32_t photometric = 0;
  std::uint32_t samples_per_pixel = 1;
  std::uint32_t planar_configuration = 1;
  std::uint32_t tile_width = 0;  ///< 0: strips
  std::uint32_t tile_height = 0;
  // A number for each sample.
  std::vector<std::uint32_t> bits_per_sample{1};
  std::vector<std::uint32_t> sample_format{1};
  std::vector<std::uint32_t> extra_samples;
  bool has_subsampling = false;           ///< the file says how many pixels share their chroma
  std::vector<std::uint32_t> colour_map;  ///< 16 bits: all reds, all greens, all blues
  std::uint32_t rows_per_strip = 0xFFFFFFFF;
  std::vector<std::uint32_t> offsets;  ///< strips' or tiles'; none if there are millions
  ByteView xmp{std::span<const std::byte>()};
};

/// Missing and damaged fields keep their defaults.
TiffDirectory read_tiff_directory(ByteView file);

}  // namespace hydrascope::image
