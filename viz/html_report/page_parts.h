// The page's files (page.html, page.css, ... of this folder) as the build embeds them:
// cmake/embed_page.cmake.
#pragma once

#include <string_view>

namespace hydrascope::viz::page {

// With {{places}} to fill: markup.h.
extern const std::string_view kPage;
extern const std::string_view kArticle;  ///< around one of the next two
extern const std::string_view kPicture;
extern const std::string_view kFailure;

extern const std::string_view kStyle;
extern const std::string_view kScript;
/// SHA-256 of the two above, in hexadecimal digits.
extern const std::string_view kStyleDigest;
extern const std::string_view kScriptDigest;

}  // namespace hydrascope::viz::page
