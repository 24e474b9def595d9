#include "viz/page/shell.h"

#include "kernels/error.h"
#include "viz/page/markup.h"
#include "viz/page/page_parts.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>

namespace hydrascope::viz::page {
namespace {

/// A source of Content-Security-Policy: 'sha256-BASE64', from the digest's hexadecimal digits.
std::string policy_source(std::string_view digest) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < digest.size(); at += 2) {
    unsigned value = 0;
    std::from_chars(digest.data() + at, digest.data() + at + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return "'sha256-" + base64(bytes) + "'";
}

}  // namespace

std::string fact_list(const Facts& facts) {
  std::string markup;
  for (const auto& [name, value] : facts) {
    markup +=
        "<div><dt>" + escaped(name) + "</dt><dd><bdi>" + escaped(value) + "</bdi></dd></div>\n";
  }
  return markup.empty() ? markup : "<dl class=\"facts\">\n" + markup + "</dl>";
}

namespace {

/// One line, and behind it all facts.
std::string folded_facts(const Shell& shell) {
  if (shell.facts.empty()) return "";
  constexpr std::size_t kMost = 4;
  std::string line = shell.line;
  for (std::size_t i = 0; shell.line.empty() && i < std::min(kMost, shell.facts.size()); ++i)
    if (shell.title.find(shell.facts[i].second) == std::string::npos)  // which says it
      line += (line.empty() ? "" : " \u00b7 ") + shell.facts[i].second;
  if (line.empty()) line = "Facts";
  return "<details class=\"run\"><summary><bdi>" + escaped(line) + "</bdi></summary>\n" +
         fact_list(shell.facts) + "</details>";
}

}  // namespace

std::pair<std::string_view, std::string_view> cut(std::string_view page, std::string_view place) {
  const std::size_t at = page.find(place);
  if (at == page.npos)
    throw Error(ErrorCode::internal, "the page lacks a place", std::string(place));
  return {page.substr(0, at), page.substr(at + place.size())};
}

std::pair<std::string, std::string> begin_and_end(const Shell& shell) {
  std::string policy = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:" +
                       std::string(shell.asks_server ? " blob:" : "") + "; style-src " +
                       policy_source(kStyleDigest);
  if (!shell.script_digest.empty()) policy += "; script-src " + policy_source(shell.script_digest);
  if (shell.asks_server) policy += "; connect-src 'self'";
  const auto [before, after] = cut(kShell, "{{body}}");
  const std::string& heading = shell.heading.empty() ? shell.title : shell.heading;
  return {fill(before, {{"policy", policy},
                        {"title", escaped(shell.title)},
                        {"style", kStyle},
                        {"heading", escaped(heading)},
                        {"tools", shell.tools},
                        {"facts", folded_facts(shell)}}),
          std::string(after)};
}

}  // namespace hydrascope::viz::page
