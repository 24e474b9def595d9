#include "app/visualize/heat_figure.h"

#include "app/run/assets.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

namespace hydrascope::app {
namespace {

/// Read when it is first needed, for all threads.
const viz::Font& caption_font() {
  static const viz::Font font(assets_folder() / "fonts" / "DejaVuSans-subset.ttf");
  return font;
}

const viz::Colormap& default_colormap(bool diverging) {
  const auto name = diverging ? viz::kDefaultDivergingColormap : viz::kDefaultColormap;
  const viz::Colormap* found = viz::find_colormap_or_null(name);
  if (found == nullptr)
    throw Error(ErrorCode::internal, "the default colormap is missing", std::string(name));
  return *found;
}

/// Edge of a panel's picture: a sheet stays near two to three thousand pixels.
int longest_panel_edge(std::size_t panels, std::size_t columns) {
  constexpr std::size_t kMostOfASquareSheet = 4;
  if (columns > kMostOfASquareSheet) panels = std::max(panels, columns * columns);
  if (panels <= 2) return 1280;
  if (panels <= 4) return 800;
  if (panels <= 9) return 640;
  return panels <= 36 ? 384 : 224;
}

/// Text of a picture, in a box of its own.
struct BoxLabel {
  std::string text;
  double pixels = 0;  // of the font
  int margin = 0;
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

BoxLabel label_of(const viz::Canvas& picture, const std::string& text) {
  const viz::Font& font = caption_font();
  BoxLabel label;
  label.pixels = std::max(12.0, std::round(std::min(picture.width, picture.height) / 36.0));
  label.margin = static_cast<int>(label.pixels / 4);
  label.text = font.fit(text, label.pixels, picture.width - 2 * label.margin);
  const viz::TextSize size = font.measure(label.text, label.pixels);
  label.width = size.width + 2 * label.margin;
  label.height = size.height;
  return label;
}

/// `text` above the box that `placement` lies in, or inside where there is no room above it.
BoxLabel label_of_box(const viz::Canvas& picture, const viz::Placement& placement,
                      const std::string& text) {
  BoxLabel label = label_of(picture, text);
  const int left = static_cast<int>(viz::seen(placement.horizontal).begin);
  const int top = static_cast<int>(viz::seen(placement.vertical).begin);
  label.x = std::clamp(left, 0, std::max(0, picture.width - label.width));
  label.y = top < label.height ? top : top - label.height;
  return label;
}

void draw_label(viz::Canvas& picture, const BoxLabel& label) {
  constexpr viz::Color kPaper{32, 32, 32};
  constexpr viz::Color kInk{255, 255, 255};
  viz::fill_rectangle(picture, label.x, label.y, label.width, label.height, kPaper);
  caption_font().draw(picture, label.text, label.x + label.margin, label.y, label.pixels, kInk);
}

/// A cross whose middle, a quarter of each arm, is left free. Returns the label beside it.
BoxLabel draw_mark(viz::Canvas& picture, int x, int y, const std::string& text) {
  constexpr viz::Color kPaper{32, 32, 32};
  constexpr viz::Color kInk{255, 255, 255};
  const int shorter_edge = std::min(picture.width, picture.height);
  const int arm = std::max(6, shorter_edge / 36);
  const int pen = std::max(1, shorter_edge / 360);
  const int gap = arm / 4;
  for (const auto& [color, rim] : {std::pair(kPaper, pen), {kInk, 0}}) {
    const int half = pen / 2 + rim;
    const int width = 2 * half + 1;
    const int length = arm - gap + 2 * rim;
    viz::fill_rectangle(picture, x - arm - rim, y - half, length, width, color);
    viz::fill_rectangle(picture, x + gap - rim, y - half, length, width, color);
    viz::fill_rectangle(picture, x - half, y - arm - rim, width, length, color);
    viz::fill_rectangle(picture, x - half, y + gap - rim, width, length, color);
  }
  BoxLabel label = label_of(picture, text);
  label.x = std::clamp(x + arm, 0, std::max(0, picture.width - label.width));
  label.y = std::clamp(y - arm - label.height, 0, std::max(0, picture.height - label.height));
  return label;
}

/// `picture` may have another size than the input.
void draw_map(viz::Canvas& picture, const ShownMap& shown, const FigureOptions& options) {
  viz::Placement placement = shown.placement;
  // Placement is relative to the picture's size, so the other size is all it needs.
  placement.horizontal.picture = picture.width;
  placement.vertical.picture = picture.height;
  viz::OverlayStyle style;
  style.colormap = shown.colormap;
  style.alpha = options.alpha;
  viz::draw_heat(picture, shown.map, shown.range, placement, style);
  const int shorter_edge = std::min(picture.width, picture.height);
  viz::frame_seen(picture, placement, std::max(1, shorter_edge / 540));
  if (shown.mark) {
    const auto at = [](std::int64_t pixel, int edge, std::int64_t of) {
      return static_cast<int>(pixel * edge / of);
    };
    const int x = at(shown.mark->front(), picture.width, shown.placement.horizontal.picture);
    const int y = at(shown.mark->back(), picture.height, shown.placement.vertical.picture);
    draw_label(picture, draw_mark(picture, x, y, shown.caption.front()));
  } else if (options.title) {
    draw_label(picture, label_of_box(picture, placement, shown.caption.front()));
  }
}

/// All of `picture` in the middle of a canvas that is not smaller.
viz::Canvas letterboxed(viz::Canvas picture, viz::Size size) {
  if (viz::size_of(picture) == size) return picture;
  viz::Canvas canvas = viz::filled(size.width, size.height, {});
  viz::paste(canvas, picture, (size.width - picture.width) / 2, (size.height - picture.height) / 2);
  return canvas;
}

using Row = std::vector<const ShownMap*>;

/// Rows of a sheet: of layers where there are several, else of what a method has; one row where
/// none would hold several maps.
std::vector<Row> rows_of(std::span<const ShownMap> maps) {
  const bool by_layer = std::ranges::any_of(
      maps, [&](const ShownMap& map) { return map.choice.layer != maps.front().choice.layer; });
  // A class counts by its place: frames of a video may have different ones there.
  using Key = std::tuple<model::explain::Method, std::string, std::ptrdiff_t>;
  std::vector<Key> keys;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const MapChoice& choice = maps[i].choice;
    Key key{choice.method, "", 0};
    if (by_layer)
      key = {choice.method, to_text(choice.head),
             std::ranges::count(maps.first(i), choice, &ShownMap::choice)};
    const auto row = static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
    if (row == keys.size()) {
      keys.push_back(std::move(key));
      rows.emplace_back();
    }
    rows[row].push_back(&maps[i]);
  }
  if (std::ranges::any_of(rows, [](const Row& row) { return row.size() > 1; })) return rows;
  Row all;
  for (const ShownMap& map : maps) all.push_back(&map);
  return {all};
}

/// 0, as square as it gets, for a single row that is long.
std::size_t columns_of(const std::vector<Row>& rows, bool beside) {
  constexpr std::size_t kMostSideBySide = 4;
  const std::size_t longest = std::ranges::max(rows, {}, &Row::size).size() + (beside ? 1 : 0);
  return rows.size() == 1 && longest > kMostSideBySide ? 0 : longest;
}

}  // namespace

ShownMap shown_map(const InputMap& map, const FigureOptions& options) {
  ShownMap shown;
  shown.map = viz::with_sign(map.map, options.sign);
  const bool has_two_signs = map.is_signed && options.sign == viz::Sign::both;
  shown.colormap =
      options.colormap != nullptr ? options.colormap : &default_colormap(has_two_signs);
  // 0 has the neutral colour of a diverging table.
  shown.range = viz::range_of(shown.map, shown.colormap->diverging, viz::kOutlierPercent);
  shown.caption = caption(map, options.label_type);
  shown.choice = map.choice;
  shown.placement = map.placement;
  shown.mark = map.of_class.mark;
  return shown;
}

viz::Canvas draw_figure(viz::Canvas picture, std::span<const ShownMap> maps,
                        const FigureOptions& options, std::optional<viz::Size> frame) {
  const bool is_sheet = maps.size() > 1;
  const std::vector<Row> rows = rows_of(maps);
  const std::size_t columns = columns_of(rows, options.beside);
  viz::Size size = frame.value_or(viz::size_of(picture));
  if (is_sheet) {
    const int edge = longest_panel_edge(maps.size() + (options.beside ? 1 : 0), columns);
    if (std::max(size.width, size.height) > edge) size = viz::fitted_size(size, edge, edge);
  }
  if (viz::size_of(picture) != size) picture = viz::fitted(picture, size.width, size.height);
  if (!options.has_extras(maps.size())) {
    draw_map(picture, maps.front(), options);
    return letterboxed(std::move(picture), size);
  }
  viz::FigureStyle style;
  const auto without_map = [&](viz::Canvas shown) {
    return viz::Panel{letterboxed(std::move(shown), size), {}};
  };
  FigureOptions panel_options = options;
  panel_options.title = options.title && !is_sheet && !options.caption;
  std::vector<viz::Panel> panels;
  for (const Row& row : rows) {
    const viz::Canvas blank = viz::filled(size.width, size.height, style.background);
    while (columns > 0 && panels.size() % columns != 0) panels.push_back(without_map(blank));
    if (options.beside) panels.push_back(without_map(panels.empty() ? picture : blank));
    for (const ShownMap* shown : row) {
      viz::Panel& panel = panels.emplace_back();
      viz::Canvas drawn = picture;
      draw_map(drawn, *shown, panel_options);
      panel.picture = letterboxed(std::move(drawn), size);
      if (is_sheet || options.caption) panel.caption = shown->caption;
    }
  }
  style.steady = frame.has_value();
  style.columns = static_cast<int>(columns);
  return viz::make_figure(panels, style, caption_font());
}

std::vector<ShownMap> SteadyColors::shown(std::span<const InputMap> maps,
                                          const FigureOptions& options) {
  // A scene's range is followed within a second or two.
  constexpr double kKept = 0.9;
  const auto mean = [](float kept, float value) {
    return static_cast<float>(kKept * double{kept} + (1 - kKept) * double{value});
  };
  std::vector<ShownMap> shown;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const InputMap& map = maps[i];
    viz::ValueRange& range = shown.emplace_back(shown_map(map, options)).range;
    if (i == slots_.size()) slots_.push_back({map.of_class.index, range});
    Slot& slot = slots_.at(i);
    const bool of_class = model::explain::entry_of(map.choice.method).of_class;
    if (of_class && slot.class_index != map.of_class.index) slot = {map.of_class.index, range};
    range = slot.range = {mean(slot.range.low, range.low), mean(slot.range.high, range.high)};
  }
  return shown;
}

}  // namespace hydrascope::app
