// One patch of the picture is white: the cell that is bright in the model's input must be the cell
// that the placement says, whatever the transform did.
#include "app/pipeline/predictions.h"
#include "model/transform.h"
#include "tests/viz/heat/cell_at.h"
#include "viz/picture/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace picture_placement_test {

using image::CropMode;
using image::Fit;
using image::Picture;
using image::Size;
using image::TransformConfig;

struct Case {
  std::string name;
  Size picture;
  TransformConfig config;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

TransformConfig config(Size img_size, double crop_pct, CropMode mode = CropMode::center) {
  TransformConfig made;
  made.img_size = img_size;
  made.crop_pct = crop_pct;
  made.crop_mode = mode;
  return made;
}

TransformConfig fitted(TransformConfig made, Fit fit) {
  made.fit = fit;
  return made;
}

TransformConfig native(Fit fit) {
  TransformConfig made;
  made.views = image::Views::native;
  made.fit = fit;
  return made;
}

bool is_in_cell(const viz::Placement& placement, int x, int y, std::int64_t row,
                std::int64_t column) {
  return viz::cell_at(placement.vertical, y) == row &&
         viz::cell_at(placement.horizontal, x) == column;
}

/// White where the cell lies, black elsewhere.
Picture marked(Size size, const viz::Placement& placement, std::int64_t row, std::int64_t column) {
  Picture made{static_cast<int>(size.width), static_cast<int>(size.height), {}};
  for (int y = 0; y < made.height; ++y) {
    for (int x = 0; x < made.width; ++x) {
      const std::uint8_t value = is_in_cell(placement, x, y, row, column) ? 255 : 0;
      made.rgb.insert(made.rgb.end(), 3, value);
    }
  }
  return made;
}

/// Mean of the green channel by cell, 0..1.
std::vector<double> brightness(const TransformConfig& config, const Picture& picture,
                               std::int64_t rows, std::int64_t columns) {
  const at::Tensor tensor = image::apply_transform(config, picture);
  EXPECT_EQ(tensor.size(1), rows * config.patch_size);
  EXPECT_EQ(tensor.size(2), columns * config.patch_size);
  const float* green = tensor.const_data_ptr<float>() + tensor.size(1) * tensor.size(2);
  std::vector<double> means;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::int64_t y = 0; y < config.patch_size; ++y) {
        for (std::int64_t x = 0; x < config.patch_size; ++x)
          sum += green[(row * config.patch_size + y) * tensor.size(2) + column * config.patch_size +
                       x];
      }
      const double mean = sum / static_cast<double>(config.patch_size * config.patch_size);
      means.push_back(mean * config.std[1] + config.mean[1]);
    }
  }
  return means;
}

/// The begin of cell `cell` in the picture, in pixels.
double cell_edge(const viz::Axis& axis, std::int64_t cell) {
  const double position = static_cast<double>(cell) * static_cast<double>(axis.output) /
                          static_cast<double>(axis.cells);
  return (position + static_cast<double>(axis.window_start)) * static_cast<double>(axis.picture) /
         static_cast<double>(axis.resized);
}

/// Cells that lie on the picture as a whole.
std::vector<std::int64_t> whole_cells(const viz::Axis& axis) {
  std::vector<std::int64_t> cells;
  const auto [begin, end] = viz::seen(axis);
  constexpr double kRounding = 0.51;
  for (std::int64_t cell = 0; cell < axis.cells; ++cell) {
    if (cell_edge(axis, cell) >= static_cast<double>(begin) - kRounding &&
        cell_edge(axis, cell + 1) <= static_cast<double>(end) + kRounding)
      cells.push_back(cell);
  }
  return cells;
}

bool contains(const std::vector<std::int64_t>& cells, std::int64_t cell) {
  return std::ranges::find(cells, cell) != cells.end();
}

/// The first, one in the middle and the last.
std::vector<std::int64_t> some_of(const std::vector<std::int64_t>& cells) {
  return {cells.front(), cells.at(cells.size() / 2), cells.back()};
}

class PicturePlacementTest : public ::testing::TestWithParam<Case> {};

TEST_P(PicturePlacementTest, AMarkedCellIsBrightInTheModelsInputAndNoOtherIs) {
  const auto& [name, size, config] = GetParam();
  const viz::Placement placement =
      placement_of(image::plan_transform(config, size), size, config.patch_size);
  const viz::Axis& vertical = placement.vertical;
  const viz::Axis& horizontal = placement.horizontal;
  for (const std::int64_t row : some_of(whole_cells(vertical))) {
    for (const std::int64_t column : some_of(whole_cells(horizontal))) {
      const Picture picture = marked(size, placement, row, column);
      const std::vector<double> cells =
          brightness(config, picture, vertical.cells, horizontal.cells);
      for (std::int64_t i = 0; i < std::ssize(cells); ++i) {
        const double value = cells[static_cast<std::size_t>(i)];
        const std::string where = "cell " + std::to_string(i / horizontal.cells) + ", " +
                                  std::to_string(i % horizontal.cells) + " with " +
                                  std::to_string(row) + ", " + std::to_string(column) + " marked";
        if (i == row * horizontal.cells + column) {
          EXPECT_GT(value, 0.8) << where;
        } else if (value > 0.2) {
          // Padding has the mean colour, about half of white.
          const bool is_padded = !contains(whole_cells(vertical), i / horizontal.cells) ||
                                 !contains(whole_cells(horizontal), i % horizontal.cells);
          EXPECT_TRUE(is_padded) << where << " is " << value;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Transforms, PicturePlacementTest,
    ::testing::Values(
        Case{"square", {224, 224}, config({112, 112}, 1.0)},
        Case{"crop_of_square", {300, 300}, config({112, 112}, 0.875)},
        Case{"crop_of_wide", {270, 480}, config({112, 112}, 0.875)},
        Case{"crop_of_tall", {481, 271}, config({112, 112}, 0.9)},
        Case{"crop_to_wide_input", {270, 480}, config({64, 160}, 0.9)},
        Case{"squash_of_wide", {270, 480}, config({112, 112}, 1.0, CropMode::squash)},
        Case{"squash_and_crop", {270, 480}, config({112, 112}, 0.8, CropMode::squash)},
        Case{"border_of_wide", {270, 480}, config({112, 112}, 1.0, CropMode::border)},
        Case{"border_of_tall", {480, 270}, config({112, 112}, 0.9, CropMode::border)},
        Case{"padded_input", {300, 300}, fitted(config({100, 120}, 1.0), Fit::pad)},
        Case{"cropped_input", {300, 300}, fitted(config({100, 120}, 1.0), Fit::crop)},
        Case{"resized_input", {300, 300}, fitted(config({100, 120}, 1.0), Fit::resize)},
        Case{"native", {80, 144}, native(Fit::pad)},
        Case{"native_padded", {90, 150}, native(Fit::pad)},
        Case{"native_cropped", {90, 150}, native(Fit::crop)},
        Case{"native_resized", {90, 150}, native(Fit::resize)}),
    [](const auto& test) { return test.param.name; });

/// A JPEG's APP1 segment behind its first two bytes: one EXIF entry, the orientation.
std::vector<std::byte> with_orientation(std::vector<std::byte> jpeg, unsigned char orientation) {
  const unsigned char segment[] = {0xFF, 0xE1, 0, 34, 'E', 'x',         'i', 'f', 0, 0,  'M', 'M',
                                   0,    42,   0, 0,  0,   8,           0,   1,   1, 18, 0,   3,
                                   0,    0,    0, 1,  0,   orientation, 0,   0,   0, 0,  0,   0};
  const auto* first = reinterpret_cast<const std::byte*>(segment);
  jpeg.insert(jpeg.begin() + 2, first, first + sizeof segment);
  return jpeg;
}

TEST(PlacementOfTest, MapsFollowThePictureThatExifTurnedUpright) {
  const Size upright{270, 480};
  const TransformConfig made = config({112, 112}, 0.875);
  const viz::Placement placement =
      placement_of(image::plan_transform(made, upright), upright, made.patch_size);
  const Picture picture = marked(upright, placement, 1, 5);
  // Orientation 6: the viewer turns what is stored clockwise, so it is stored turned the other way.
  viz::Canvas stored{picture.height, picture.width, {}};
  stored.rgb.resize(picture.rgb.size());
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const auto from = static_cast<std::size_t>((y * picture.width + x) * 3);
      const auto to = static_cast<std::size_t>(((picture.width - 1 - x) * stored.width + y) * 3);
      std::copy_n(picture.rgb.begin() + static_cast<std::ptrdiff_t>(from), 3,
                  stored.rgb.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  const Picture decoded =
      image::decode(with_orientation(viz::encode(stored, viz::ImageFormat::jpeg), 6), {});
  ASSERT_EQ(decoded.width, upright.width);
  ASSERT_EQ(decoded.height, upright.height);
  const std::vector<double> cells = brightness(made, decoded, 7, 7);
  EXPECT_EQ(std::ranges::max_element(cells) - cells.begin(), 1 * 7 + 5);
}

TEST(PlacementOfTest, NumbersOfACrop) {
  const Size size{1080, 1920};
  const TransformConfig made = config({224, 224}, 0.875);
  const viz::Placement placement = placement_of(image::plan_transform(made, size), size, 16);
  EXPECT_EQ(placement.vertical.resized, 256);
  EXPECT_EQ(placement.vertical.window_start, 16);
  EXPECT_EQ(placement.horizontal.resized, 455);
  EXPECT_EQ(placement.horizontal.window_start, 116) << "231 / 2 rounded half to even";
  EXPECT_EQ(placement.horizontal.cells, 14);
}

TEST(BoxOfTest, ACropIsTheMiddleWithoutItsBorder) {
  const Size size{1080, 1920};
  const TransformConfig made = config({224, 224}, 0.875);
  EXPECT_EQ(box_of(image::plan_transform(made, size), size), (Box{489, 67, 946, 945}));
}

}  // namespace picture_placement_test
}  // namespace hydrascope::app
