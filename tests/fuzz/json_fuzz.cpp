// JSON of our own files and of others: the strict reader, a model's configuration, its transform, names of classes.
#include "model/checkpoint/formats/strict_json.h"
#include "model/checkpoint/hub/hub_config.h"
#include "model/checkpoint/hub/transform_hints.h"
#include "model/config/config.h"
#include "tests/fuzz/fuzz.h"

#include <nlohmann/json.hpp>

namespace checkpoint = hydrascope::checkpoint;
namespace model = hydrascope::model;
using hydrascope::fuzz::gives_result;
using hydrascope::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = hydrascope::fuzz::as_text(data, size);
  require(checkpoint::find_bad_utf8(text) <= size, "a place in the text");
  gives_result([&] {
    const nlohmann::json value = checkpoint::parse_json(text, "text", "fuzz");
    require(checkpoint::parse_json(value.dump(), "text", "fuzz") == value,
            "what is written is read");
    require(!checkpoint::describe(value).empty(), "every value has a description");
  });
  static_cast<void>(checkpoint::quote(text));
  gives_result([&] {
    const model::VitConfig config = model::config_from_json(text, "fuzz");
    require(model::config_from_json(model::to_json(config), "fuzz") == config,
            "what is written is read");
    require(config.head_dim() > 0 && config.grid_rows() > 0 && config.grid_columns() > 0,
            "a valid configuration has patches and features");
  });
  gives_result([&] {
    const auto hints = checkpoint::parse_timm_transform(text, "origin", "fuzz");
    hydrascope::image::TransformConfig config;
    std::map<std::string, std::string> origins;
    hints.apply_to(config, origins);
    static_cast<void>(checkpoint::to_timm_transform(config, 3));
  });
  gives_result([&] {
    const auto names = checkpoint::parse_label_names(text, "fuzz");
    require(checkpoint::parse_label_names(checkpoint::to_label_names(names), "fuzz") == names,
            "what is written is read");
  });
  return 0;
}
