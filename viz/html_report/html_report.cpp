#include "viz/html_report/html_report.h"

#include "kernels/error.h"
#include "kernels/new_file.h"
#include "viz/html_report/page_data.h"
#include "viz/page/markup.h"
#include "viz/page/page_parts.h"
#include "viz/page/page_picture.h"
#include "viz/page/shell.h"

#include <algorithm>
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

/// For readers without scripts; with them the page lists what the answer holds.
std::string lines_of(const std::vector<std::string>& top) {
  std::string markup;
  for (const std::string& line : top) markup += "<li><bdi>" + page::escaped(line) + "</bdi></li>\n";
  return markup.empty() ? markup : "<ol class=\"top\">\n" + markup + "</ol>";
}

/// A page of 50 photographs has to stay small next to their maps.
page::PagePicture large_picture(const ReportPicture& picture) {
  constexpr int kMostQuality = 82;
  constexpr std::int64_t kFineGrid = 40;
  constexpr std::int64_t kVeryFineGrid = 100;
  constexpr int kEdge = 800;
  constexpr std::size_t kMostBytes = 60'000;
  const int scale = picture.finest_grid > kVeryFineGrid ? 4
                    : picture.finest_grid > kFineGrid   ? 2
                                                        : 1;
  return page::page_picture(picture.picture, scale * kEdge, kMostQuality,
                            kMostBytes * scale * scale);
}

page::PagePicture thumbnail(const Canvas& picture) {
  constexpr int kEdge = 144;
  constexpr int kQuality = 72;
  constexpr std::size_t kMostBytes = 6'000;
  return page::page_picture(picture, kEdge, kQuality, kMostBytes);
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
    const auto [before, after] = page::cut(page::kArticle, "{{content}}");
    const std::string number = std::to_string(pictures + failures + 1);
    const std::string opening =
        page::fill(before, {{"class", kind}, {"number", number}, {"name", name}});
    write({opening, content, after});
  }
};

HtmlReport::HtmlReport(const std::filesystem::path& file, ReportOptions options)
    : state_(std::make_unique<State>(file, std::move(options))) {
  const auto [begin, end] = page::begin_and_end({.title = state_->options.title,
                                                 .facts = state_->options.facts,
                                                 .tools = page::kTheme,
                                                 .script_digest = page::kScriptDigest});
  const auto filled = [&](std::string_view part) {
    return page::fill(part, {{"controls", page::kControls},
                             {"pane", page::kPane},
                             {"settings", state_->settings},
                             {"script", page::kScript}});
  };
  // Cut before anything is put in: no text that a caller gave can look like one of these places.
  const auto [before_pictures, after_pictures] = page::cut(page::kReport, "{{pictures}}");
  const auto [before_counts, after_counts] = page::cut(before_pictures, "{{counts}}");
  const std::string start = begin + filled(before_counts);
  state_->counts_position = static_cast<std::int64_t>(start.size());
  state_->end = filled(after_pictures) + end;
  state_->write({start, counts_text(0, 0), filled(after_counts)});
}

HtmlReport::~HtmlReport() = default;

PreparedPicture HtmlReport::prepare(const ReportPicture& picture) const {
  const page::PagePicture shown = large_picture(picture);
  std::string name = page::escaped(picture.name);
  std::string content =
      page::fill(page::kPicture, {{"name", name},
                                  {"width", std::to_string(shown.width)},
                                  {"height", std::to_string(shown.height)},
                                  {"jpeg", shown.jpeg},
                                  {"top", lines_of(picture.top)},
                                  {"thumbnail", page::data_url(thumbnail(picture.picture))},
                                  {"answer", page::script_text(picture.answer)}});
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
