#include "viz/live_page/live_page.h"

#include "viz/html_report/page_data.h"
#include "viz/page/markup.h"
#include "viz/page/page_parts.h"
#include "viz/page/shell.h"

#include <nlohmann/json.hpp>

namespace hydrascope::viz {

std::string live_page(const ReportOptions& options,
                      const std::vector<std::vector<std::int64_t>>& patch_layers,
                      const std::map<std::string, std::string>& first_query,
                      const std::vector<std::string>& samples) {
  const auto [begin, end] = page::begin_and_end({.title = options.title,
                                                 .facts = options.facts,
                                                 .tools = page::kTheme,
                                                 .script_digest = page::kLiveScriptDigest,
                                                 .asks_server = true});
  std::string settings = page::settings_json(options);
  nlohmann::json more = {{"patches", patch_layers}, {"first", nullptr}, {"samples", samples}};
  if (!first_query.empty()) more["first"] = first_query;
  const std::string text = more.dump();
  settings.insert(1, text.substr(1, text.size() - 2) + ",");
  return begin +
         page::fill(page::kLive, {{"controls", page::kControls},
                                  {"pane", page::kPane},
                                  {"settings", settings},
                                  {"script", page::kLiveScript}}) +
         end;
}

}  // namespace hydrascope::viz
