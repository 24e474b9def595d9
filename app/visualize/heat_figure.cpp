#include "app/visualize/heat_figure.h"

#include "kernels/error.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {
namespace {

const viz::Colormap& default_colormap(bool diverging) {
  const auto name = diverging ? viz::kDefaultDivergingColormap : viz::kDefaultColormap;
  const viz::Colormap* found = viz::find_colormap_or_null(name);
  if (found == nullptr)
    throw Error(ErrorCode::internal, "the default colormap is missing", std::string(name));
  return *found;
}

/// Edge of a panel's picture: a sheet stays near two to three thousand pixels.
int longest_panel_edge(std::size_t panels) {
  if (panels <= 2) return 1280;
  if (panels <= 4) return 800;
  if (panels <= 9) return 640;
  return panels <= 36 ? 384 : 224;
}

void draw_map(viz::Canvas& picture, const viz::Placement& placement, const ShownMap& shown,
              const FigureOptions& options) {
  viz::OverlayStyle style;
  style.colormap = shown.colormap;
  style.alpha = options.alpha;
  style.fade = options.fade;
  style.sampling = options.sampling;
  viz::draw_heat(picture, shown.map, shown.range, placement, style);
  if (options.outlined_mass) {
    constexpr int kPixelsByThickness = 360;
    const int thickness = std::max(2, std::min(picture.width, picture.height) / kPixelsByThickness);
    viz::outline_cells(picture, viz::smallest_set(shown.map, *options.outlined_mass), placement,
                       thickness);
  }
}

/// All of `picture` in the middle of a canvas that is not smaller.
viz::Canvas letterboxed(viz::Canvas picture, viz::Size size) {
  if (viz::size_of(picture) == size) return picture;
  viz::Canvas canvas = viz::filled(size.width, size.height, {});
  viz::paste(canvas, picture, (size.width - picture.width) / 2, (size.height - picture.height) / 2);
  return canvas;
}

/// Panels of a row where rows are layers or methods and columns heads or classes, a few of which
/// stand side by side; 0: any.
int panels_a_row(std::span<const ShownMap> maps, const FigureOptions& options) {
  constexpr int kMostSideBySide = 4;
  const auto of_first_row = static_cast<int>(
      std::ranges::count(maps, maps.front().layout_group, &ShownMap::layout_group));
  const bool is_one_row = std::cmp_equal(of_first_row, maps.size());
  const int panels = of_first_row + (options.beside ? 1 : 0);
  if (is_one_row) return panels <= kMostSideBySide ? panels : 0;
  return of_first_row > 1 && !options.beside ? of_first_row : 0;
}

}  // namespace

ShownMap shown_map(const InputMap& map, const FigureOptions& options) {
  ShownMap shown;
  shown.map = viz::with_sign(map.map, options.sign);
  const bool has_two_signs = map.is_signed && options.sign == viz::Sign::both;
  shown.colormap =
      options.colormap != nullptr ? options.colormap : &default_colormap(has_two_signs);
  // 0 has the neutral colour of a diverging table.
  shown.range = viz::range_of(shown.map, shown.colormap->diverging, options.outlier_percent);
  shown.caption = caption(map, options.label_type);
  shown.quantity = quantity(map);
  shown.layout_group = std::string(model::explain::entry_of(map.choice.method).name) + "." +
                       std::to_string(map.choice.layer);
  return shown;
}

viz::Canvas draw_figure(viz::Canvas picture, const viz::Placement& placement,
                        std::span<const ShownMap> maps, const FigureOptions& options,
                        const viz::Font* font, std::optional<viz::Size> frame) {
  const bool is_sheet = maps.size() > 1;
  viz::Size size = frame.value_or(viz::size_of(picture));
  if (is_sheet) {
    const int edge = longest_panel_edge(maps.size() + (options.beside ? 1 : 0));
    if (std::max(size.width, size.height) > edge) size = viz::fitted_size(size, edge, edge);
  }
  viz::Placement placed = placement;
  if (viz::size_of(picture) != size) {
    picture = viz::fitted(picture, size.width, size.height);
    // Placement is relative to the picture's size, so the other size is all it needs.
    placed.horizontal.picture = picture.width;
    placed.vertical.picture = picture.height;
  }
  if (!options.has_extras(maps.size())) {
    draw_map(picture, placed, maps.front(), options);
    return letterboxed(std::move(picture), size);
  }
  if (font == nullptr) throw Error(ErrorCode::internal, "a figure with text and no font");
  std::vector<viz::Panel> panels;
  if (options.beside) panels.push_back({letterboxed(picture, size), {}, std::nullopt});
  for (const ShownMap& shown : maps) {
    viz::Panel& panel = panels.emplace_back();
    viz::Canvas drawn = picture;
    draw_map(drawn, placed, shown, options);
    panel.picture = letterboxed(std::move(drawn), size);
    if (is_sheet || options.caption) panel.caption = shown.caption;
    if (is_sheet || options.colorbar)
      panel.bar = viz::ColorBar{shown.colormap, shown.range, shown.quantity};
  }
  viz::FigureStyle style;
  style.steady = frame.has_value();
  style.columns = panels_a_row(maps, options);
  return viz::make_figure(panels, style, *font);
}

}  // namespace hydrascope::app
