// The files of pages (of viz/page and viz/html_report) as the build embeds them:
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

extern const std::string_view kStyle;
extern const std::string_view kScript;  ///< the HTML report's
/// SHA-256 of the two above, in hexadecimal digits.
extern const std::string_view kStyleDigest;
extern const std::string_view kScriptDigest;

}  // namespace hydrascope::viz::page
