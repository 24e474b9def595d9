#include "app/model/int8_calibration.h"

#include "app/model/assets.h"
#include "app/pictures/inputs.h"
#include "app/run/console.h"
#include "kernels/error.h"
#include "model/image/decode.h"
#include "model/transform.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

constexpr std::size_t kMostImages = 32;

std::vector<Input> named_inputs(const std::string& word) {
  std::vector<Input> inputs;
  if (word.empty()) {
    for (const std::string& file : bundled_images()) inputs.push_back(file_input(file, file));
    return inputs;
  }
  std::istringstream nothing;
  InputStream stream({word}, /*recursive=*/true, nothing);
  while (std::optional<Input> input = stream.next())
    if (!input->is_video) inputs.push_back(std::move(*input));
  return inputs;
}

/// At most kMostImages of them, evenly spread: folders are sorted, often by class.
std::vector<Input> spread(const std::vector<Input>& inputs) {
  const std::size_t count = std::min(inputs.size(), kMostImages);
  std::vector<Input> chosen;
  for (std::size_t i = 0; i < count; ++i) chosen.push_back(inputs[i * inputs.size() / count]);
  return chosen;
}

}  // namespace

at::Tensor calibration_images(const std::string& word, const ModelSource& source,
                              image::TransformConfig transform, const Console& console) {
  if (word == "none") return {};
  transform.tiling = image::Tiling::none;
  transform.native = false;  // one size for all of them
  transform.img_size = {source.config.img_height, source.config.img_width};
  std::vector<at::Tensor> images;
  for (const Input& input : spread(named_inputs(word))) {
    try {
      if (input.error) throw Error(*input.error, input.message, input.given);
      images.push_back(image::apply_transform(transform, image::read_picture(input.path, {})));
    } catch (const Error& error) {
      console.note("note: not calibrated on " + input.given + ": " + error.what());
    }
  }
  if (images.empty()) {
    if (word.empty()) return {};  // an installation without photographs
    throw Error(ErrorCode::invalid_argument, "no picture to calibrate on", "--calibration " + word,
                "name a folder of pictures, or none");
  }
  return at::stack(images);
}

}  // namespace hydrascope::app
