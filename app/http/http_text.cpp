#include "app/http/http_text.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <cstddef>
#include <netinet/in.h>

namespace hydrascope::app {
namespace {

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower_ascii(x) == lower_ascii(y); });
}

std::string_view without_blanks_around(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// A parameter of `form-data; name="a"; filename="b.jpg"`, its quotes taken off. One that has no
/// value is passed over.
std::optional<std::string> header_parameter(std::string_view header, std::string_view wanted) {
  std::size_t at = header.find(';');
  while (at != header.npos && at < header.size()) {
    const std::size_t equals = header.find_first_of("=;", ++at);
    if (equals == header.npos) return std::nullopt;
    if (header[equals] == ';') {
      at = equals;
      continue;
    }
    const std::string_view name = without_blanks_around(header.substr(at, equals - at));
    std::string value;
    at = std::min(header.find_first_not_of(" \t", equals + 1), header.size());
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      at = header.find(';', at);
    } else {
      const std::size_t end = std::min(header.find(';', at), header.size());
      value = without_blanks_around(header.substr(at, end - at));
      at = end;
    }
    if (same_ignoring_case(name, wanted)) return value;
  }
  return std::nullopt;
}

/// The name in `filename*=utf-8''a%20b.jpg` (RFC 8187); a name in ISO-8859-1 becomes UTF-8, too.
std::string extended_value(std::string_view text) {
  const std::size_t charset = text.find('\'');
  const std::size_t language = charset == text.npos ? text.npos : text.find('\'', charset + 1);
  if (language == text.npos) return decoded_url(text, /*is_query=*/false);
  const std::string value = decoded_url(text.substr(language + 1), /*is_query=*/false);
  if (!same_ignoring_case(text.substr(0, charset), "iso-8859-1")) return value;
  std::string utf8;
  for (const char character : value) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x80U) utf8 += static_cast<char>(0xC0U | byte >> 6U);
    utf8 += byte < 0x80U ? character : static_cast<char>(0x80U | (byte & 0x3FU));
  }
  return utf8;
}

[[noreturn]] void refuse_form(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what, "multipart/form-data");
}

constexpr std::string_view kForm = "application/x-www-form-urlencoded";

/// The beginnings of picture files in base64: JPEG, PNG, GIF, WebP, BMP.
constexpr std::array<std::string_view, 5> kBase64{"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk"};

bool is_base64(std::string_view text) {
  const std::string_view begin = text.substr(0, 256);
  return std::ranges::any_of(kBase64, [&](auto word) { return begin.starts_with(word); }) &&
         begin.find_first_not_of(
             "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
             "+/=\r\n") == begin.npos;
}

/// The bytes that `curl -d` takes out of a file.
bool has_no_line_ends(std::string_view body) {
  return body.find_first_of(std::string_view("\r\n\0", 3)) == body.npos;
}

struct BodySign {
  std::size_t at;
  std::string_view bytes;
  std::string_view kind;
};

/// The signs of bodies that are sent in the place of a picture.
constexpr std::array kSigns =
    std::to_array<BodySign>({{4, "ftypiso", "a video (MP4)"},
                             {4, "ftypmp4", "a video (MP4)"},
                             {4, "ftypM4V", "a video (MP4)"},
                             {4, "ftypavc1", "a video (MP4)"},
                             {4, "ftypqt", "a video (QuickTime)"},
                             {0, "\x1A\x45\xDF\xA3", "a video (Matroska)"},
                             {8, "AVI ", "a video (AVI)"},
                             {0, "%PDF", "a PDF"},
                             {0, "\x1F\x8B", "compressed with gzip"},
                             {0, "PK\x03\x04", "a zip archive"}});

/// "JSON", "text/html"; "" where nothing is known.
std::string kind_of(std::string_view body, std::string_view type) {
  const std::size_t blank = body.find_first_not_of(" \t\r\n");
  const std::string_view text = body.substr(std::min(blank, body.size()));
  const std::string begin = lower_text(text.substr(0, 16));
  for (const BodySign& one : kSigns)
    if (body.substr(std::min(one.at, body.size())).starts_with(one.bytes))
      return std::string(one.kind);
  if (type == "application/json" || type.ends_with("+json"))
    return "JSON (" + std::string(type) + ")";
  if (begin.starts_with("data:")) return "a data: URL";
  if (is_base64(text)) return "base64";
  if (begin.starts_with('{') || begin.starts_with("[")) return "JSON";
  if (begin.starts_with("<!doctype html") || begin.starts_with("<html")) return "HTML";
  if (type.starts_with("video/") || type.starts_with("audio/") || type.starts_with("text/") ||
      type.starts_with("multipart/") || type.ends_with("/xml") || type == "application/pdf")
    return std::string(type);
  return "";
}

}  // namespace

std::string lower_text(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower_ascii);
  return result;
}

bool names_loopback(std::string_view host, std::string_view own) {
  std::string name = lower_text(host);
  if (const std::size_t colon = name.rfind(':');
      colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos)
    name.resize(colon);
  const bool has_brackets = name.starts_with('[') && name.ends_with(']');
  if (has_brackets) name = name.substr(1, name.size() - 2);
  if (name.empty()) return false;
  if (name == "localhost" || name == lower_text(own)) return true;
  if (in6_addr address{}; has_brackets && ::inet_pton(AF_INET6, name.c_str(), &address) == 1)
    return IN6_IS_ADDR_LOOPBACK(&address);
  in_addr address{};
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

Target split_target(std::string_view target) {
  Target result;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    result.authority = target.substr(0, end);
    target.remove_prefix(end);
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  result.path = target.substr(0, mark);
  if (result.authority && result.path.empty()) result.path = "/";
  result.query = target.substr(std::min(mark + 1, target.size()));
  return result;
}

std::string_view accepted_type(std::string_view accept, std::span<const std::string_view> offered) {
  while (!accept.empty()) {
    const std::size_t end = std::min(accept.find(','), accept.size());
    const std::string range = media_type(accept.substr(0, end));
    accept.remove_prefix(std::min(end + 1, accept.size()));
    for (const std::string_view type : offered)
      if (range == type || range == "*/*" ||
          range == std::string(type.substr(0, type.find('/'))) + "/*")
        return type;
  }
  return offered.front();
}

std::string decoded_url(std::string_view text, bool is_query) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      result += static_cast<char>(byte);
      i += 2;
    } else {
      result += is_query && text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> query;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view one = text.substr(0, end);
    const std::size_t equals = std::min(one.find('='), one.size());
    if (!one.empty())
      query.emplace_back(decoded_url(one.substr(0, equals), true),
                         decoded_url(one.substr(std::min(equals + 1, one.size())), true));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return query;
}

std::string media_type(std::string_view content_type) {
  return lower_text(without_blanks_around(content_type.substr(0, content_type.find(';'))));
}

std::optional<std::string> form_boundary(std::string_view content_type) {
  if (media_type(content_type) != "multipart/form-data") return std::nullopt;
  const std::optional<std::string> boundary = header_parameter(content_type, "boundary");
  constexpr std::size_t kLongest = 70;
  if (!boundary || boundary->empty() || boundary->size() > kLongest)
    refuse_form("expected a boundary");
  return boundary;
}

std::vector<FormPart> parse_form(std::string_view body, std::string_view boundary,
                                 std::size_t most) {
  const std::string mark = "--" + std::string(boundary);
  const std::string delimiter = "\r\n" + mark;
  std::size_t at = 0;
  if (!body.starts_with(mark)) {
    at = body.find(delimiter);
    if (at == body.npos) refuse_form("the body has no part");
    at += 2;
  }
  at += mark.size();
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    const std::size_t line = body.find("\r\n", at);
    if (line == body.npos || !without_blanks_around(body.substr(at, line - at)).empty())
      refuse_form("a part has no begin");
    FormPart part;
    for (at = line + 2; !body.substr(at).starts_with("\r\n");) {
      const std::size_t end = body.find("\r\n", at);
      if (end == body.npos) refuse_form("a part has no end");
      const std::string_view header = body.substr(at, end - at);
      const std::size_t colon = header.find(':');
      if (same_ignoring_case(header.substr(0, colon), "content-disposition")) {
        part.name = header_parameter(header, "name").value_or("");
        const std::optional<std::string> filename = header_parameter(header, "filename");
        const std::optional<std::string> extended = header_parameter(header, "filename*");
        part.filename = extended ? extended_value(*extended) : filename.value_or("");
        part.is_file = part.is_file || filename || extended;
      } else if (same_ignoring_case(header.substr(0, colon), "content-type")) {
        part.type = media_type(header.substr(colon + 1));
        part.is_file = part.is_file || part.type != "text/plain";
      }
      at = end + 2;
    }
    at += 2;
    // An empty part's delimiter may begin with the header's last line end.
    const std::size_t end = body.find(delimiter, at - 2);
    if (end == body.npos) refuse_form("a part has no end");
    part.content = body.substr(at, end > at ? end - at : 0);
    if (parts.size() == most) refuse_form("expected at most " + std::to_string(most) + " parts");
    parts.push_back(std::move(part));
    at = end + delimiter.size();
  }
  return parts;
}

std::optional<std::string> complaint_about(std::string_view body, std::string_view type,
                                           ErrorCode code) {
  constexpr std::string_view kHow =
      "expected the bytes of one picture: curl --data-binary @photo.jpg, or a form: "
      "curl -F picture=@photo.jpg";
  if (body.empty()) return "the body is empty; " + std::string(kHow);
  const bool is_broken = code == ErrorCode::decode_failed;
  constexpr std::size_t kLarge = 1024;  // no picture of that size is without line ends and zeros
  if (!is_broken && code != ErrorCode::unsupported_format) return std::nullopt;
  if (type == kForm && is_broken && body.size() >= kLarge && has_no_line_ends(body))
    return "the body has no line ends, which curl -d takes away; send it with --data-binary "
           "@photo.jpg";
  if (is_broken) return std::nullopt;
  if (const std::string kind = kind_of(body, type); !kind.empty())
    return "the body is " + kind + "; " + std::string(kHow);
  if (type == kForm && has_no_line_ends(body))
    return "the body is " + std::string(kForm) +
           " and no picture, as curl -d sends it; expected "
           "--data-binary @photo.jpg";
  return std::nullopt;
}

}  // namespace hydrascope::app
