// The font of what is written on pictures and below them.
#pragma once

#include "viz/text/font.h"

namespace hydrascope::app {

/// Read when it is first needed, for all threads. Throws what `viz::Font` throws where the font that comes with
/// the program is missing.
const viz::Font& caption_font();

}  // namespace hydrascope::app
