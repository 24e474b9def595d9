#include "viz/page/page_picture.h"

#include "viz/page/markup.h"
#include "viz/picture/encode.h"

#include <algorithm>
#include <vector>

namespace hydrascope::viz::page {

PagePicture page_picture(const Canvas& picture, int edge, int quality, std::size_t max_bytes) {
  constexpr int kQualityStep = 10;
  constexpr int kLowestQuality = 52;
  constexpr int kShortestEdge = 64;
  quality = std::clamp(quality, 1, 100);
  edge = std::min(edge, std::max(picture.width, picture.height));
  Canvas shrunk = fitted(picture, edge, edge);
  std::vector<std::byte> bytes = encode(shrunk, ImageFormat::jpeg, quality);
  while (bytes.size() > max_bytes && (quality > kLowestQuality || edge > kShortestEdge)) {
    if (quality > kLowestQuality) {
      quality = std::max(quality - kQualityStep, kLowestQuality);
    } else {
      edge = edge * 4 / 5;
      shrunk = fitted(picture, edge, edge);
    }
    bytes = encode(shrunk, ImageFormat::jpeg, quality);
  }
  return {shrunk.width, shrunk.height, base64(bytes)};
}

std::string data_url(const PagePicture& picture) {
  return "data:image/jpeg;base64," + picture.jpeg;
}

}  // namespace hydrascope::viz::page
