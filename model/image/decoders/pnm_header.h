// The text header of portable bitmaps, greymaps and pixmaps (PBM, PGM, PPM: "P1" to "P6").
#pragma once

#include "model/image/decoders/byte_view.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hydrascope::image {

struct PnmHeader {
  int kind = 0;  ///< 1..6: bitmap, greymap, pixmap as text, then the same as bytes
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::uint32_t max_value = 1;  ///< white in the file; 1 for bitmaps
  std::size_t data_offset = 0;

  [[nodiscard]] bool is_bitmap() const { return kind == 1 || kind == 4; }
  [[nodiscard]] bool is_text() const { return kind <= 3; }
  [[nodiscard]] int channels() const { return kind == 3 || kind == 6 ? 3 : 1; }
};

/// Nothing for bytes of another kind.
std::optional<PnmHeader> read_pnm_header(ByteView file);

/// The next unsigned number of a PNM's text, moving `at` past it; `#` comments and blanks before
/// it are skipped. Nothing when there is none or it exceeds 2^31 - 1.
std::optional<std::uint32_t> read_pnm_number(ByteView file, std::size_t& at);

}  // namespace hydrascope::image
