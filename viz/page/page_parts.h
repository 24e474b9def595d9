// The files of pages (of viz/page, viz/html_report and viz/live_page) as the build embeds them:
// cmake/embed_page.cmake.
#pragma once

#include <string_view>

namespace hydrascope::viz::page {

// With {{places}} to fill: markup.h.
extern const std::string_view kShell;     ///< around every page
extern const std::string_view kTheme;     ///< beside the heading
extern const std::string_view kReport;    ///< the HTML report's body
extern const std::string_view kControls;  ///< of maps
extern const std::string_view kPane;      ///< what a map is shown in
extern const std::string_view kArticle;   ///< around one of the next two
extern const std::string_view kPicture;
extern const std::string_view kFailure;
extern const std::string_view kLive;  ///< the live page's body

extern const std::string_view kStyle;
extern const std::string_view kScript;      ///< the HTML report's
extern const std::string_view kLiveScript;  ///< the live page's
/// SHA-256 of the three above, in hexadecimal digits.
extern const std::string_view kStyleDigest;
extern const std::string_view kScriptDigest;
extern const std::string_view kLiveScriptDigest;

}  // namespace hydrascope::viz::page
