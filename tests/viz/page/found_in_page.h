// The findings of a test in a page.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::viz {

/// The texts between `open` and `close`, in their order.
inline std::vector<std::string> between(const std::string& text, std::string_view open,
                                        std::string_view close) {
  std::vector<std::string> found;
  for (std::size_t at = text.find(open); at != text.npos; at = text.find(open, at)) {
    at += open.size();
    found.push_back(text.substr(at, text.find(close, at) - at));
  }
  return found;
}

/// Every element that is opened is closed, in order, and attributes are quoted; "" or what is
/// wrong.
inline std::string malformed(const std::string& page) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = page.find('<', at)) != page.npos) {
    if (page.compare(at, 2, "<!") == 0) {
      at = page.find('>', at);
      continue;
    }
    const bool closes = page[at + 1] == '/';
    std::size_t end = at + (closes ? 2 : 1);
    const std::size_t name_begin = end;
    while (std::isalnum(static_cast<unsigned char>(page[end])) != 0) ++end;
    const std::string name = page.substr(name_begin, end - name_begin);
    if (name.empty()) return "a bare < at: " + page.substr(at, 40);
    for (char quote = 0; quote != 0 || page[end] != '>'; ++end) {
      if (end + 1 >= page.size()) return "a tag without end: " + page.substr(at, 40);
      if (quote == 0 && page[end] == '=' && page[end + 1] != '"') return "no quotes: " + name;
      if (page[end] == '"') quote = quote == 0 ? '"' : 0;
      if (quote == 0 && page[end] == '<') return "a tag in a tag: " + page.substr(at, 40);
    }
    const bool is_void = page[end - 1] == '/';
    at = end + 1;
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes another";
      open.pop_back();
    } else if (!is_void) {
      open.push_back(name);
      if (name == "script" || name == "style") at = page.find("</" + name + ">", at);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

}  // namespace hydrascope::viz
