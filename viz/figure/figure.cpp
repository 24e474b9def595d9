#include "viz/figure/figure.h"

#include "kernels/error.h"
#include "viz/text/text_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace hydrascope::viz {
namespace {

constexpr int kMostCaptionLines = 3;  // that a line is broken into

/// A panel laid out: its picture, and its text below.
struct Block {
  Canvas picture;
  TextBlock caption;
  int caption_width;

  [[nodiscard]] int width() const { return std::max(picture.width, caption_width); }
};

/// Large enough to be read on a small picture, and in proportion to a large one that is looked at
/// as a whole.
double legible_text(const std::vector<Canvas>& pictures) {
  double area = 0;
  for (const Canvas& picture : pictures)
    area = std::max(area, static_cast<double>(picture.width) * picture.height);
  return std::round(std::max(12.0, 6 + 0.03 * std::sqrt(area)));
}

Canvas sized(const Canvas& picture, const FigureStyle& style) {
  if (style.panel_width <= 0 && style.panel_height <= 0) return picture;
  constexpr int kAny = std::numeric_limits<int>::max();
  return fitted(picture, style.panel_width > 0 ? style.panel_width : kAny,
                style.panel_height > 0 ? style.panel_height : kAny);
}

std::vector<Block> laid_out(const std::vector<Panel>& panels, std::vector<Canvas> pictures,
                            const Font& font, double text, bool steady) {
  std::vector<Block> blocks;
  blocks.reserve(panels.size());
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const Panel& panel = panels[i];
    // A picture of a few pixels still gets some words.
    const int room = std::max(pictures[i].width, static_cast<int>(8 * text));
    TextBlock caption(panel.caption, font, text, room, steady ? 1 : kMostCaptionLines);
    const int width = steady && !panel.caption.empty() ? room : caption.width();
    blocks.push_back({std::move(pictures[i]), std::move(caption), width});
  }
  return blocks;
}

/// Without a number of columns, so many that the longer side of the sheet is the shortest.
int columns_of(const std::vector<Block>& blocks, int wanted, int margin) {
  const int count = static_cast<int>(blocks.size());
  if (wanted > 0) return std::min(wanted, count);
  std::int64_t width = 0;
  std::int64_t height = 0;
  for (const Block& block : blocks) {
    width = std::max<std::int64_t>(width, block.width() + margin);
    height = std::max<std::int64_t>(height, block.picture.height + block.caption.height() + margin);
  }
  int best = 1;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int columns = 1; columns <= count; ++columns) {
    const std::int64_t longer = std::max(columns * width, (count + columns - 1) / columns * height);
    if (longer <= shortest) {
      shortest = longer;
      best = columns;
    }
  }
  return best;
}

Canvas blank(std::int64_t width, std::int64_t height, Color color) {
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  if (width > kMostPixels / std::max<std::int64_t>(height, 1))
    throw Error(ErrorCode::too_large,
                "a figure of " + std::to_string(width) + " x " + std::to_string(height) +
                    " pixels is above the limit of 2^28",
                "figure", "draw smaller panels, or fewer");
  return filled(static_cast<int>(width), static_cast<int>(height), color);
}

/// The grid of blocks: how wide its columns are and how high its rows.
struct Grid {
  Grid(const std::vector<Block>& blocks, int column_count, int gap)
      : text_gap(gap),
        columns(static_cast<std::size_t>(column_count)),
        widths(columns, 0),
        picture_heights((blocks.size() + columns - 1) / columns, 0),
        text_heights(picture_heights.size(), 0) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      int& width = widths[i % columns];
      width = std::max(width, blocks[i].width());
      int& picture = picture_heights[i / columns];
      picture = std::max(picture, blocks[i].picture.height);
      int& text = text_heights[i / columns];
      text = std::max(text, blocks[i].caption.height());
    }
  }
  [[nodiscard]] std::size_t rows() const { return picture_heights.size(); }
  [[nodiscard]] int row_height(std::size_t row) const {
    return picture_heights[row] + (text_heights[row] > 0 ? text_gap + text_heights[row] : 0);
  }

  int text_gap;
  std::size_t columns;
  std::vector<int> widths;
  std::vector<int> picture_heights;
  std::vector<int> text_heights;
};

void draw_block(Canvas& sheet, const Block& block, int x, int bottom, int text_y, Color text) {
  paste(sheet, block.picture, x, bottom - block.picture.height);
  block.caption.draw(sheet, x, text_y, text);
}

}  // namespace

Canvas make_figure(const std::vector<Panel>& panels, const FigureStyle& style, const Font& font) {
  if (panels.empty()) throw Error(ErrorCode::empty, "a figure needs a panel", "figure");
  std::vector<Canvas> pictures;
  pictures.reserve(panels.size());
  for (const Panel& panel : panels) pictures.push_back(sized(panel.picture, style));
  if (panels.size() == 1 && panels[0].caption.empty()) return std::move(pictures[0]);

  const double text = legible_text(pictures);
  const int margin = static_cast<int>(std::ceil(text * 0.8));
  const int text_gap = static_cast<int>(std::ceil(text * 0.4));
  const std::vector<Block> blocks = laid_out(panels, std::move(pictures), font, text, style.steady);
  const Grid grid(blocks, columns_of(blocks, style.columns, margin), text_gap);

  std::int64_t width = margin;
  for (const int column : grid.widths) width += column + margin;
  std::int64_t height = margin;
  for (std::size_t row = 0; row < grid.rows(); ++row) height += grid.row_height(row) + margin;

  Canvas sheet = blank(width, height, style.background);
  int y = margin;
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    const int bottom = y + grid.picture_heights[row];
    int x = margin;
    const std::size_t first = row * grid.columns;
    for (std::size_t i = first; i < std::min(first + grid.columns, blocks.size()); ++i) {
      draw_block(sheet, blocks[i], x, bottom, bottom + text_gap, style.text);
      x += grid.widths[i - first] + margin;
    }
    y += grid.row_height(row) + margin;
  }
  return sheet;
}

}  // namespace hydrascope::viz
