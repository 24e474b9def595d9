#include "viz/scale/colormap.h"

#include <algorithm>

namespace hydrascope::viz {

const std::vector<Colormap>& colormaps() {
  static const std::vector<Colormap> all = {
#include "viz/scale/colormap_tables.inc"
  };
  return all;
}

const Colormap* find_colormap_or_null(std::string_view name) {
  const auto found = std::ranges::find(colormaps(), name, &Colormap::name);
  return found == colormaps().end() ? nullptr : &*found;
}

}  // namespace hydrascope::viz
