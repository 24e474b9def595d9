// Pictures that lie in a page.
#pragma once

#include "viz/picture/canvas.h"

#include <cstddef>
#include <string>

namespace hydrascope::viz::page {

struct PagePicture {
  int width = 0;
  int height = 0;
  std::string jpeg;  ///< base64
};

/// Shrunk until its longest edge is `edge`, and its JPEG, of `quality` at most, has `max_bytes`:
/// first at the cost of quality, then of size. It is never enlarged.
PagePicture page_picture(const Canvas& picture, int edge, int quality, std::size_t max_bytes);

/// As the source of an <img>.
std::string data_url(const PagePicture& picture);

}  // namespace hydrascope::viz::page
