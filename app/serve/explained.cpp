#include "app/serve/explained.h"

#include "app/maps/explained_record.h"
#include "app/pictures/decoding_workers.h"
#include "app/results/npy_file.h"
#include "kernels/error.h"
#include "model/image/decode.h"
#include "viz/page/markup.h"
#include "viz/picture/encode.h"

#include <array>
#include <cstring>

namespace hydrascope::app {
namespace {

std::string npy_bytes(std::span<const std::int64_t> shape,
                      const std::vector<std::span<const float>>& parts) {
  std::string bytes = npy_header(shape);
  for (const std::span<const float> part : parts)
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size_bytes());
  return bytes;
}

}  // namespace

OrderedJson answered_json(const Answer& answer) {
  if (!answer.patch_row || answer.record.error) return explained_json(answer.record, answer.maps);
  OrderedJson object = to_json(answer.record);
  object["patch"] = {
      {"grid", {answer.patch_row->rows, answer.patch_row->columns}},
      {"values", viz::page::base64(std::as_bytes(std::span(answer.patch_row->values)))}};
  return object;
}

std::string explained_array(const Answer& answer) {
  if (const auto& row = answer.patch_row)
    return npy_bytes(std::array{row->rows, row->columns}, {row->values});
  std::vector<std::span<const float>> parts;
  const viz::HeatMap& first = answer.maps.front().map;
  for (const InputMap& map : answer.maps) {
    if (map.map.rows != first.rows || map.map.columns != first.columns)
      throw Error(ErrorCode::invalid_argument, "the maps have several sizes", "format=npy");
    parts.emplace_back(map.map.values);
  }
  std::vector<std::int64_t> shape{first.rows, first.columns};
  if (parts.size() > 1) shape.insert(shape.begin(), static_cast<std::int64_t>(parts.size()));
  return npy_bytes(shape, parts);
}

std::string explained_picture(const Answer& answer, std::span<const std::byte> encoded,
                              const image::DecodeOptions& decode, const FigureOptions& figure) {
  image::Picture picture = decode_bytes(encoded, decode);
  std::vector<ShownMap> shown;
  for (const InputMap& map : answer.maps) shown.push_back(shown_map(map, figure));
  const viz::Canvas drawn =
      draw_figure({picture.width, picture.height, std::move(picture.rgb)}, shown, figure);
  const std::vector<std::byte> bytes = viz::encode(drawn, viz::ImageFormat::png);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

OrderedJson embedded_json(const Answer& answer) {
  OrderedJson object = to_json(answer.record);
  if (answer.record.error) return object;
  object.erase("top");
  if (!answer.record.looks.empty()) {
    // The vector is the look model's of the whole picture.
    for (const char* of_the_pass : {"model_size", "tokens", "views", "num_views", "things", "looks",
                                    "attention", "attention_options", "approximations"})
      object.erase(of_the_pass);
  }
  constexpr int kDigits = 9;  // of a float32, all
  OrderedJson values = OrderedJson::array();
  for (const float value : answer.embedding) values.push_back(rounded(significant(value, kDigits)));
  object["embedding"] = std::move(values);
  return object;
}

}  // namespace hydrascope::app
