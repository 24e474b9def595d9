#include "viz/html_report/html_report.h"

#include "kernels/error.h"
#include "kernels/new_file.h"
#include "viz/html_report/markup.h"
#include "viz/html_report/page_data.h"
#include "viz/html_report/page_parts.h"
#include "viz/picture/encode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

namespace hydrascope::viz {
namespace {

/// The counts stand before the pictures but are known after them: a line of this length is kept
/// free, as white space that a browser does not show.
constexpr std::size_t kCountsLength = 96;

std::string counts_text(std::int64_t pictures, std::int64_t failures) {
  std::string text = std::to_string(pictures) + (pictures == 1 ? " picture" : " pictures");
  if (failures > 0) text += ", " + std::to_string(failures) + " could not be read";
  text.resize(kCountsLength, ' ');
  return text;
}

std::string fact_list(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string markup;
  for (const auto& [name, value] : facts) {
    markup += "<div><dt>" + page::escaped(name) + "</dt><dd><bdi>" + page::escaped(value) +
              "</bdi></dd></div>\n";
  }
  return markup.empty() ? markup : "<dl class=\"facts\">\n" + markup + "</dl>";
}

std::string fixed(double value, int decimals) {
  std::array<char, 32> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::fixed, decimals);
  return {buffer.data(), written.ptr};
}

/// A bar is an SVG rectangle: its width is an attribute, where the page's policy allows no styles.
std::string prediction_list(const std::vector<ReportPrediction>& top) {
  std::string markup;
  for (const ReportPrediction& prediction : top) {
    const double probability =
        std::isfinite(prediction.probability) ? std::clamp(prediction.probability, 0.0, 1.0) : 0;
    const std::string label = prediction.label.empty() ? "class " + std::to_string(prediction.index)
                                                       : page::escaped(prediction.label);
    const std::string percent = fixed(100 * probability, 1);
    markup += "<li><span class=\"label\"><bdi>" + label + "</bdi></span> <span class=\"value\">" +
              percent +
              " %</span><svg class=\"bar\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" "
              "aria-hidden=\"true\"><rect width=\"" +
              percent + "\" height=\"1\"></rect></svg></li>\n";
  }
  return markup.empty() ? markup : "<ol class=\"top\">\n" + markup + "</ol>";
}

struct PagePicture {
  int width = 0;
  int height = 0;
  std::string jpeg;  ///< base64
};

/// Shrunk to fit the page, and as much further as the bytes for it demand: a page of 50 photographs
/// has to stay small next to their maps.
PagePicture page_picture(const Canvas& picture, const ReportOptions& options) {
  constexpr std::size_t kMaxBytes = 60'000;
  constexpr int kQualityStep = 10;
  constexpr int kLowestQuality = 52;
  constexpr int kShortestEdge = 64;
  int quality = std::clamp(options.quality, 1, 100);
  int edge = std::min(options.longest_edge, std::max(picture.width, picture.height));
  Canvas shrunk = fitted(picture, edge, edge);
  std::vector<std::byte> bytes = encode(shrunk, ImageFormat::jpeg, {.quality = quality});
  while (bytes.size() > kMaxBytes && (quality > kLowestQuality || edge > kShortestEdge)) {
    if (quality > kLowestQuality) {
      quality = std::max(quality - kQualityStep, kLowestQuality);
    } else {
      edge = edge * 4 / 5;
      shrunk = fitted(picture, edge, edge);
    }
    bytes = encode(shrunk, ImageFormat::jpeg, {.quality = quality});
  }
  return {shrunk.width, shrunk.height, page::base64(bytes)};
}

/// What stands before and after `place`.
std::pair<std::string_view, std::string_view> cut(std::string_view page, std::string_view place) {
  const std::size_t at = page.find(place);
  if (at == page.npos)
    throw Error(ErrorCode::internal, "the page lacks a place", std::string(place));
  return {page.substr(0, at), page.substr(at + place.size())};
}

/// A source of Content-Security-Policy: 'sha256-BASE64', from the digest's hexadecimal digits.
std::string policy_source(std::string_view digest) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < digest.size(); at += 2) {
    unsigned value = 0;
    std::from_chars(digest.data() + at, digest.data() + at + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return "'sha256-" + page::base64(bytes) + "'";
}

}  // namespace

struct HtmlReport::State {
  State(const std::filesystem::path& target, ReportOptions chosen)
      : options(std::move(chosen)),
        settings(page::settings_json(options)),
        place(target.native()),
        file(target) {}

  const ReportOptions options;
  const std::string settings;
  const std::string place;  ///< for errors
  NewFile file;
  bool is_whole = true;  ///< false: a piece is missing
  std::string end;       ///< of the page, after the pictures
  std::int64_t counts_position = 0;
  std::int64_t pictures = 0;
  std::int64_t failures = 0;

  void write(std::initializer_list<std::string_view> pieces) {
    if (!is_whole)
      throw Error(ErrorCode::unwritable, "an earlier part of the page could not be written", place);
    is_whole = false;
    for (const std::string_view piece : pieces) file.write(std::as_bytes(std::span(piece)));
    is_whole = true;
  }

  /// `name` and `content` are markup.
  void write_article(std::string_view kind, std::string_view name, std::string_view content) {
    const auto [before, after] = cut(page::kArticle, "{{content}}");
    const std::string number = std::to_string(pictures + failures + 1);
    const std::string opening =
        page::fill(before, {{"class", kind}, {"number", number}, {"name", name}});
    write({opening, content, after});
  }
};

HtmlReport::HtmlReport(const std::filesystem::path& file, ReportOptions options)
    : state_(std::make_unique<State>(file, std::move(options))) {
  const std::string policy =
      "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " +
      policy_source(page::kStyleDigest) + "; script-src " + policy_source(page::kScriptDigest);
  const std::string title = page::escaped(state_->options.title);
  const std::string facts = fact_list(state_->options.facts);
  const auto filled = [&](std::string_view part) {
    return page::fill(part, {{"policy", policy},
                             {"title", title},
                             {"facts", facts},
                             {"style", page::kStyle},
                             {"settings", state_->settings},
                             {"script", page::kScript}});
  };
  // Cut before anything is put in: no text that a caller gave can look like one of these places.
  const auto [before_pictures, after_pictures] = cut(page::kPage, "{{pictures}}");
  const auto [before_counts, after_counts] = cut(before_pictures, "{{counts}}");
  const std::string start = filled(before_counts);
  state_->counts_position = static_cast<std::int64_t>(start.size());
  state_->end = filled(after_pictures);
  state_->write({start, counts_text(0, 0), filled(after_counts)});
}

HtmlReport::~HtmlReport() = default;

PreparedPicture HtmlReport::prepare(const ReportPicture& picture) const {
  const std::string about = page::about_json(picture);
  const PagePicture shown = page_picture(picture.picture, state_->options);
  std::string name = page::escaped(picture.name);
  std::string content = page::fill(page::kPicture, {{"name", name},
                                                    {"width", std::to_string(shown.width)},
                                                    {"height", std::to_string(shown.height)},
                                                    {"jpeg", shown.jpeg},
                                                    {"top", prediction_list(picture.top)},
                                                    {"facts", fact_list(picture.facts)},
                                                    {"about", about},
                                                    {"maps", page::map_lines(picture)}});
  return {std::move(name), std::move(content)};
}

void HtmlReport::add(const PreparedPicture& picture) {
  state_->write_article("picture", picture.name, picture.content);
  ++state_->pictures;
}

void HtmlReport::add(const ReportFailure& failure) {
  const std::string content =
      page::fill(page::kFailure, {{"message", page::escaped(failure.message)}});
  state_->write_article("failure", page::escaped(failure.name), content);
  ++state_->failures;
}

void HtmlReport::finish() {
  state_->write({state_->end});
  const std::string counts = counts_text(state_->pictures, state_->failures);
  state_->file.overwrite(state_->counts_position, std::as_bytes(std::span(counts)));
  state_->file.commit();
}

}  // namespace hydrascope::viz
