// What is written in requests: percent signs, queries, and bodies of several parts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// Percent-decoded (RFC 3986); in a query "+" is a blank. What is no escape stays as it is.
std::string decoded_url(std::string_view text, bool is_query);

/// "a=1&b=2%203" -> {a, 1}, {b, 2 3}.
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text);

struct FormPart {
  std::string name;      ///< of the field
  std::string filename;  ///< "" where it is no file
  std::string_view content;
};

/// The boundary of a Content-Type "multipart/form-data; boundary=..."; nothing for other types.
std::optional<std::string> form_boundary(std::string_view content_type);

/// The parts of a form's body, which they point into (RFC 7578). Throws Error(invalid_argument) for
/// a body that is none, or of more than `most` parts.
std::vector<FormPart> parse_form(std::string_view body, std::string_view boundary,
                                 std::size_t most);

}  // namespace hydrascope::app
