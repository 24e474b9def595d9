#include "viz/live_page/live_page.h"

#include "viz/html_report/page_data.h"
#include "viz/page/markup.h"
#include "viz/page/page_parts.h"
#include "viz/page/shell.h"

namespace hydrascope::viz {

std::string live_page(const ReportOptions& options, bool shows_patches) {
  const auto [begin, end] = page::begin_and_end({.title = options.title,
                                                 .facts = options.facts,
                                                 .tools = page::kTheme,
                                                 .script_digest = page::kLiveScriptDigest,
                                                 .asks_server = true});
  std::string settings = page::settings_json(options);
  settings.insert(1, shows_patches ? "\"patches\":true," : "\"patches\":false,");
  return begin +
         page::fill(page::kLive, {{"controls", page::kControls},
                                  {"pane", page::kPane},
                                  {"settings", settings},
                                  {"script", page::kLiveScript}}) +
         end;
}

}  // namespace hydrascope::viz
