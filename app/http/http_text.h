// The texts of requests: targets, percent signs, queries, what is accepted, bodies of several parts, and bodies that are
// no picture.
#pragma once

#include "kernels/error.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// For ASCII letters.
std::string lower_text(std::string_view text);

/// A target "/a?b=1", or "http://host:1/a?b=1", as RFC 9112, section 3.2, has them.
struct Target {
  std::optional<std::string_view> authority;  ///< counts in the place of the Host header
  std::string_view path;                      ///< percent signs as they are
  std::string_view query;
};
Target split_target(std::string_view target);

/// Whether a Host header names this machine to itself, or as its server was told (`own`): else a
/// page of a stranger whose name was pointed here (DNS rebinding) would be of the same origin as
/// ours.
bool names_loopback(std::string_view host, std::string_view own);

/// The one of the media types `offered` that stands first in an Accept header (RFC 9110, section 12.5.1), whatever its
/// q; the first offered one where the header names none.
std::string_view accepted_type(std::string_view accept, std::span<const std::string_view> offered);

/// Percent-decoded (RFC 3986); in a query "+" is a blank. Other text stays as it is.
std::string decoded_url(std::string_view text, bool is_query);

/// "a=1&b=2%203" -> {a, 1}, {b, 2 3}.
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text);

struct FormPart {
  std::string name;      ///< of the field
  std::string filename;  ///< may be "" of a file, too
  std::string type;      ///< "image/jpeg", in lower case; "" where it has none
  bool is_file = false;  ///< has a filename, or a type other than text/plain
  std::string_view content;
};

/// "Image/JPEG; q=1" -> "image/jpeg".
std::string media_type(std::string_view content_type);

/// The boundary of a Content-Type "multipart/form-data; boundary=..."; nothing for other types.
std::optional<std::string> form_boundary(std::string_view content_type);

/// The parts of a form's body, which they point into (RFC 7578). Throws Error(invalid_argument) for
/// a body that is none, or of more than `most` parts.
std::vector<FormPart> parse_form(std::string_view body, std::string_view boundary,
                                 std::size_t most);

/// The kind of a body that could not be decoded (`code`), in its sender's own words (`type`, a media type
/// in lower case, may be "") or by its first characters, and how a picture is sent; nothing where
/// the decoder knows better. A picture that `curl -d` has taken bytes from is no broken picture, but a wrong
/// form.
std::optional<std::string> complaint_about(std::string_view body, std::string_view type,
                                           ErrorCode code);

}  // namespace hydrascope::app
