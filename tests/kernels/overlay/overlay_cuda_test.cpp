#include "kernels/overlay/overlay_cuda.h"

#include "kernels/error.h"
#include "kernels/overlay/overlay_geometry.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/overlay/overlay_case.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace {

using overlay::OverlayParams;

class OverlayCuda : public DeviceTest {};

/// What the kernel leaves in y; in place: in the picture.
std::vector<std::uint8_t> drawn(const OverlayCase& c, const OverlayInput& input, bool in_place) {
  const DeviceArray<float> heat(input.heat);
  const DeviceArray<std::uint8_t> colors(input.colors);
  DeviceArray<std::uint8_t> picture(input.picture);
  DeviceArray<std::uint8_t> apart(input.picture.size());
  DeviceArray<std::uint8_t>& y = in_place ? picture : apart;
  OverlayParams p = input.params(c);
  p.picture = picture.data() + c.offset;
  p.heat = heat.data();
  p.colors = colors.data();
  p.y = y.data() + c.offset;
  overlay::cuda::overlay(p, nullptr);
  EXPECT_TRUE(y.intact());
  return y.download();
}

TEST_F(OverlayCuda, EqualsTheEquation) {
  for (const OverlayCase& c : overlay_cases()) {
    SCOPED_TRACE(name(c));
    const OverlayInput input(c);
    for_each_schedule([&] {
      expect_overlay(c, input, drawn(c, input, false), [](std::size_t) { return 0xff; });
    });
  }
}

TEST_F(OverlayCuda, ThePictureMayBeWrittenInPlace) {
  for (const OverlayCase& c : overlay_cases()) {
    SCOPED_TRACE(name(c));
    const OverlayInput input(c);
    for_each_schedule([&] {
      expect_overlay(c, input, drawn(c, input, true),
                     [&](std::size_t i) { return input.picture[i]; });
    });
  }
}

// Several blocks, and threads with several groups.
TEST_F(OverlayCuda, EqualsTheEquationOnALargerPicture) {
  for (const std::int64_t width : {96, 97}) {
    const OverlayCase c{101, width, 7, 6, 11, 3};
    const OverlayInput input(c);
    const std::vector<std::uint8_t> once = drawn(c, input, false);
    expect_overlay(c, input, once, [](std::size_t) { return 0xff; });
    for_each_schedule([&] { EXPECT_EQ(drawn(c, input, false), once); });
  }
}

// 64-bit positions: the units of a 4K picture that was resized by an awkward ratio.
TEST_F(OverlayCuda, EqualsTheEquationWherePositionsNeed64Bits) {
  OverlayCase c{21, 90, 3, 4};
  const OverlayInput input(c);
  OverlayParams p = input.params(c);
  for (overlay::Edge* edge : {&p.vertical, &p.horizontal}) {
    constexpr std::int64_t kFactor = (std::int64_t{1} << 40) + 1;
    edge->step *= kFactor;
    edge->start = 7 * kFactor - 1;
    edge->half_cell *= kFactor;
  }
  const DeviceArray<float> heat(input.heat);
  const DeviceArray<std::uint8_t> colors(input.colors);
  const DeviceArray<std::uint8_t> picture(input.picture);
  DeviceArray<std::uint8_t> y(input.picture.size());
  OverlayParams on_device = p;
  on_device.picture = picture.data();
  on_device.heat = heat.data();
  on_device.colors = colors.data();
  on_device.y = y.data();
  overlay::cuda::overlay(on_device, nullptr);
  expect_overlay(c, input, p, y.download(), [](std::size_t) { return 0xff; });
}

TEST_F(OverlayCuda, NothingIsLaunchedForNoPixels) {
  const OverlayCase c{4, 4, 2, 2};
  const OverlayInput input(c);
  OverlayParams p = input.params(c);
  p.vertical.pixels = p.vertical.seen_end = 0;
  overlay::cuda::overlay(p, nullptr);
  p.alpha = 2;
  EXPECT_THROW(overlay::cuda::overlay(p, nullptr), Error);
}

TEST(OverlayGeometry, GroupsOfPixelsInRows) {
  EXPECT_EQ(overlay::cuda::groups_of(1080, 1920), 1080 * 480);
  EXPECT_EQ(overlay::cuda::groups_of(3, 5), 6);
  EXPECT_EQ(overlay::cuda::geometry(1080, 1920).grid.x, 507);
}

}  // namespace
}  // namespace hydrascope::kernels::test
