// The font that the program draws with.
#pragma once

#include "viz/text/font.h"

namespace hydrascope::viz {

inline const Font& bundled_font() {
  static const Font font(HYDRASCOPE_SOURCE_DIR "/assets/fonts/DejaVuSans-subset.ttf");
  return font;
}

}  // namespace hydrascope::viz
