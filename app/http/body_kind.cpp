#include "app/http/body_kind.h"

#include "app/http/http_text.h"

#include <algorithm>
#include <array>

namespace hydrascope::app {
namespace {

constexpr std::string_view kForm = "application/x-www-form-urlencoded";

/// The beginnings of picture files in base64: JPEG, PNG, GIF, WebP, BMP.
constexpr std::array<std::string_view, 5> kBase64{"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk"};

bool is_base64(std::string_view text) {
  const std::string_view begin = text.substr(0, 256);
  return std::ranges::any_of(kBase64, [&](auto word) { return begin.starts_with(word); }) &&
         std::ranges::all_of(begin, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  c == '+' || c == '/' || c == '=' || c == '\r' || c == '\n';
         });
}

/// The bytes that `curl -d` takes out of a file.
bool has_no_line_ends(std::string_view body) {
  return body.find_first_of(std::string_view("\r\n\0", 3)) == body.npos;
}

struct Beginning {
  std::size_t at;
  std::string_view bytes;
  std::string_view kind;
};

/// The signs of bodies that are sent in the place of a picture.
constexpr std::array<Beginning, 11> kBeginnings{{
    {4, "ftypisom", "a video (MP4)"},
    {4, "ftypmp4", "a video (MP4)"},
    {4, "ftypM4V", "a video (MP4)"},
    {4, "ftypiso", "a video (MP4)"},
    {4, "ftypavc1", "a video (MP4)"},
    {4, "ftypqt", "a video (QuickTime)"},
    {0, "\x1A\x45\xDF\xA3", "a video (Matroska)"},
    {8, "AVI ", "a video (AVI)"},
    {0, "%PDF", "a PDF"},
    {0, "\x1F\x8B", "compressed with gzip"},
    {0, "PK\x03\x04", "a zip archive"},
}};

/// "JSON", "text/html"; "" where nothing is known.
std::string kind_of(std::string_view body, std::string_view type) {
  const std::size_t blank = body.find_first_not_of(" \t\r\n");
  const std::string_view text = body.substr(std::min(blank, body.size()));
  const std::string begin = lower_text(text.substr(0, 16));
  for (const Beginning& one : kBeginnings)
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
