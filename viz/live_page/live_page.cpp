#include "viz/live_page/live_page.h"

#include "viz/html_report/page_data.h"
#include "viz/page/markup.h"
#include "viz/page/page_parts.h"
#include "viz/page/shell.h"

#include <nlohmann/json.hpp>

namespace hydrascope::viz {

std::string live_page(const ReportOptions& options, const LiveOffer& offer) {
  const auto [begin, end] = page::begin_and_end({.title = options.title,
                                                 .facts = options.facts,
                                                 .tools = page::kTheme,
                                                 .script_digest = page::kLiveScriptDigest,
                                                 .asks_server = true});
  std::string settings = page::settings_json(options);
  nlohmann::json more = {{"patches", offer.patch_layers},    {"first", nullptr},
                         {"methods", offer.methods},         {"usual", offer.usual_methods},
                         {"menus", nlohmann::json::array()}, {"query", offer.query}};
  if (!offer.first_query.empty()) more["first"] = offer.first_query;
  for (const auto& [name, title, values, value] : offer.menus)
    more["menus"].push_back(
        {{"name", name}, {"title", title}, {"values", values}, {"value", value}});
  const std::string text =
      page::script_text(more.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  settings.insert(1, text.substr(1, text.size() - 2) + ",");
  return begin +
         page::fill(page::kLive, {{"controls", page::kControls},
                                  {"pane", page::kPane},
                                  {"settings", settings},
                                  {"script", page::kLiveScript}}) +
         end;
}

}  // namespace hydrascope::viz
