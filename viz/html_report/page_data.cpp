#include "viz/html_report/page_data.h"

#include "kernels/error.h"
#include "viz/heat/heat_overlay.h"
#include "viz/page/markup.h"
#include "viz/scale/colormap.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

namespace hydrascope::viz::page {
namespace {

using Json = nlohmann::ordered_json;

std::string chosen(const std::string& name, std::string_view otherwise) {
  const std::string_view wanted = name.empty() ? otherwise : std::string_view(name);
  if (find_colormap_or_null(wanted) == nullptr) {
    throw Error(ErrorCode::invalid_argument, "no colour map has this name", std::string(wanted));
  }
  return std::string(wanted);
}

std::string_view sign_name(Sign sign) {
  switch (sign) {
    case Sign::both: return "both";
    case Sign::positive: return "positive";
    case Sign::absolute: return "absolute";
  }
  return "";
}

}  // namespace

/// The text of a <script> element ends at "</script" and changes its meaning at "<!--": no "<" is left. JSON
/// has it in strings only, so an escape of strings will do.
std::string script_text(std::string_view json) {
  std::string text;
  for (const char character : json) {
    if (character == '<')
      text += "\\u003c";
    else
      text += character;
  }
  return text;
}

std::string settings_json(const ReportOptions& options) {
  Json tables = Json::array();
  for (const Colormap& colormap : colormaps()) {
    tables.push_back({{"name", colormap.name},
                      {"diverging", colormap.diverging},
                      {"colors", base64(std::as_bytes(std::span(colormap.colors)))}});
  }
  Json models = Json::array();
  for (const std::string& name : options.models) models.push_back(valid_text(name));
  const Json settings = {
      {"models", std::move(models)},
      {"colormaps", std::move(tables)},
      {"unseenBrightness", OverlayStyle().unseen_brightness},
      {"outlierPercent", kOutlierPercent},
      {"split", std::clamp(options.split, 0.0, 1.0)},
      {"look",
       {{"opacity", std::clamp(options.alpha, 0.0, 1.0)},
        {"colormap", chosen(options.colormap, kDefaultColormap)},
        {"signedColormap", chosen(options.signed_colormap, kDefaultDivergingColormap)},
        {"sign", sign_name(options.sign)}}}};
  return script_text(settings.dump());
}

}  // namespace hydrascope::viz::page
