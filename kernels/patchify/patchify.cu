// The kernel of patchify_cuda.h, which has the equation and the traffic, and its launch. A block takes
// `patch` image rows of a run of patches through shared memory, since a patch row of y is written channel
// after channel and read pixel after pixel.
//
// Budget: patch_pixels_kernel: 40 registers, 15360 shared bytes, 6 blocks of 256; 48 registers elsewhere
// Access: patch_pixels_kernel: loads 128, 5 x 32, 315 x 8; stores 128
// Access: patch_pixels_kernel<*, 14>: loads 128, 5 x 32, 315 x 8; stores 64
// Access: patch_pixels_kernel<float, 14>: loads 128, 5 x 32, 315 x 8; stores 128
#include "kernels/device/block.cuh"
#include "kernels/device/choice.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/error.h"
#include "kernels/patchify/patchify_cuda.h"

#include <cstdint>
#include <string>

namespace hydrascope::kernels::patchify::cuda {

template <int patch>
struct PixelShared {
  /// The run's pixels; places outside the image stay as they were.
  alignas(16) std::uint8_t rows[patch][PixelTile<patch>::kStride];
};

/// Copies `bytes` (at most kRowBytes) of each of `rows` image rows in accesses of `width` bytes;
/// the last ones of a row byte by byte.
template <int patch, int width>
__device__ __forceinline__ void load_tile(PixelShared<patch>& shared, const std::uint8_t* from,
                                          std::int64_t row_bytes, int rows, int bytes) {
  constexpr int kPieces = PixelTile<patch>::kRowBytes / width;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < patch * kPieces; i += kThreads) {
    const int row = i / kPieces;
    const int begin = i % kPieces * width;
    if (row >= rows || begin >= bytes) continue;
    const std::uint8_t* source = from + row * row_bytes + begin;
    std::uint8_t* to = &shared.rows[row][begin];
    if (begin + width <= bytes) {
      device::store_pack(to, device::load_pack<width>(source));
    } else {
      for (int k = 0; k < bytes - begin; ++k) to[k] = source[k];
    }
  }
}

/// Precondition: y aligned to the pack.
template <class T, int patch>
__global__ void __launch_bounds__(kThreads) patch_pixels_kernel(const PixelParams<T> p) {
  using Shape = PatchShape<patch, sizeof(T)>;
  using Tile = PixelTile<patch>;
  auto& shared = device::block_shared<PixelShared<patch>>();
  const auto columns = static_cast<unsigned>(p.grid_columns);
  const unsigned runs = (columns + Tile::kPatches - 1) / Tile::kPatches;
  const unsigned first_column = blockIdx.x % runs * Tile::kPatches;
  const unsigned strip = blockIdx.x / runs;  // of all images
  const unsigned image = strip / static_cast<unsigned>(p.grid_rows);
  const unsigned grid_row = strip % static_cast<unsigned>(p.grid_rows);

  const std::int64_t top = static_cast<std::int64_t>(grid_row) * patch;
  const std::int64_t left = static_cast<std::int64_t>(first_column) * patch;
  // The tile's part inside the image, in rows and columns.
  const auto part = [](std::int64_t value, int limit) {
    return value < 0 ? 0 : value < limit ? static_cast<int>(value) : limit;
  };
  const int rows = part(p.valid_height - top, patch);
  const int width = part(p.valid_width - left, patch * Tile::kPatches);

  const std::uint8_t* from = p.pixels + image * p.image_bytes + top * p.row_bytes + 3 * left;
  const std::uint64_t alignment = reinterpret_cast<std::uint64_t>(p.pixels) |
                                  static_cast<std::uint64_t>(p.row_bytes) |
                                  static_cast<std::uint64_t>(p.image_bytes);
  if (alignment % 16 == 0) {
    load_tile<patch, 16>(shared, from, p.row_bytes, rows, 3 * width);
  } else if (alignment % 4 == 0) {
    load_tile<patch, 4>(shared, from, p.row_bytes, rows, 3 * width);
  } else {
    load_tile<patch, 1>(shared, from, p.row_bytes, rows, 3 * width);
  }
  device::block_sync();

  const int left_over = static_cast<int>(columns - first_column);
  const int patches = left_over < Tile::kPatches ? left_over : Tile::kPatches;
  T* y = p.y + (static_cast<std::int64_t>(strip) * columns + first_column) * (3 * Shape::kArea);
  for (int i = static_cast<int>(threadIdx.x); i < patches * Shape::kPacksOfPlane; i += kThreads) {
    const int local = i / Shape::kPacksOfPlane;
    const int offset = i % Shape::kPacksOfPlane * Shape::kPack;
    float values[3][Shape::kPack];
#pragma unroll
    for (int u = 0; u < Shape::kPack; u += Shape::kUnit) {
      const int row = (offset + u) / patch;
      const int column = local * patch + (offset + u) % patch;
      std::uint8_t pixels[3 * Shape::kUnit];
#pragma unroll
      for (int third = 0; third < 3; ++third) {
        const auto bytes =
            device::load_pack<Shape::kUnit>(&shared.rows[row][3 * column + third * Shape::kUnit]);
#pragma unroll
        for (int k = 0; k < Shape::kUnit; ++k) pixels[third * Shape::kUnit + k] = bytes.values[k];
      }
#pragma unroll
      for (int k = 0; k < Shape::kUnit; ++k)
#pragma unroll
        for (int c = 0; c < 3; ++c)
          values[c][u + k] = row < rows && column + k < width
                                 ? static_cast<float>(pixels[3 * k + c]) * p.scale[c] + p.shift[c]
                                 : 0.0F;
    }
#pragma unroll
    for (int c = 0; c < 3; ++c)
      device::store_pack(
          y + static_cast<std::int64_t>(local) * (3 * Shape::kArea) + c * Shape::kArea + offset,
          device::from_floats<T>(values[c]));
  }
}

template <class T>
void from_pixels(const PixelParams<T>& p, device::Stream stream) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::internal, what, "patchify");
  };
  // The kernel counts rows and columns of the grid in 32 bits.
  constexpr std::int64_t kMax = 2147483647;
  if (p.grid_rows > kMax || p.grid_columns > kMax) refuse("a grid has at most 2^31 - 1 rows");
  if (p.images * p.grid_rows * p.grid_columns == 0) return;
  const bool served = device::with_one_of<kPatchSizes>(p.patch_size, [&]<int patch>() {
    device::require_packs(device::can_pack(p.y, 0, PatchShape<patch, sizeof(T)>::kPack),
                          "patchify");
    device::launch(
        "patch_pixels_kernel", patch_pixels_kernel<T, patch>,
        pixel_geometry(p.images, p.grid_rows, p.grid_columns, PixelTile<patch>::kPatches), stream,
        p);
  });
  if (!served) refuse("there is no kernel of patches of " + std::to_string(p.patch_size));
}

template void from_pixels(const PixelParams<float>&, device::Stream);
template void from_pixels(const PixelParams<BFloat16>&, device::Stream);
template void from_pixels(const PixelParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::patchify::cuda
