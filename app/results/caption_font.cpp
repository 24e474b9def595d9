#include "app/results/caption_font.h"

#include "app/run/assets.h"

namespace hydrascope::app {

const viz::Font& caption_font() {
  static const viz::Font font(bundled_font());
  return font;
}

}  // namespace hydrascope::app
