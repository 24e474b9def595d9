// The frame of all pages around their content: the head with stylesheet and Content-Security-Policy,
// the title, facts. No page loads anything, but from its own server where it has one, and no script
// runs but the page's own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::viz::page {

using Facts = std::vector<std::pair<std::string, std::string>>;

/// A list of names and values as markup; "" for none. Any bytes.
std::string fact_list(const Facts& facts);

struct Shell {
  std::string title;                    ///< of the window; any bytes
  std::string heading = {};             ///< the same by default
  std::string line = {};                ///< of facts; by default the values of the first four
  Facts facts = {};                     ///< behind the line
  std::string_view tools = {};          ///< markup beside the heading
  std::string_view script_digest = {};  ///< of the script that may run, in hexadecimal digits
  bool asks_server = false;             ///< the script asks the server that the page came from
};

/// The text before and after the page's body.
std::pair<std::string, std::string> begin_and_end(const Shell& shell);

/// The text before and after `place`, "{{body}}". Throws Error(internal) where there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view page, std::string_view place);

}  // namespace hydrascope::viz::page
