// Device code of overlay_cuda.h; equations, geometry, traffic and numerics are told there and in
// overlay.h.
//
// Budget: overlay_kernel: 48 registers, 1024 shared bytes
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/overlay/overlay.h"
#include "kernels/overlay/overlay_geometry.h"
#include "kernels/overlay/sample_position.h"

#include <cstdint>

namespace hydrascope::kernels::overlay::cuda {

struct Colors {
  device::Pack<std::uint8_t, 4> entries[256];  ///< one word each: two reads per pixel, not six
};

/// n of the equation; `scale` 0: no range.
__device__ __forceinline__ float normalised(float heat, float low, float scale) {
  if (scale == 0) return heat == heat ? 0.0F : heat;
  const float t = (heat - low) * scale;
  return t < 0 ? 0.0F : t > 1 ? 1.0F : t;  // a NaN stays
}

/// The upsampled value between the cells of two rows (the same twice where `down` is 0) from `cell`
/// on.
__device__ __forceinline__ float sample(const float* upper, const float* lower, float down,
                                        const Position& at, float low, float scale) {
  const auto column = [&](std::int32_t cell) {
    const float t = normalised(upper[cell], low, scale);
    return down == 0 ? t : t + (normalised(lower[cell], low, scale) - t) * down;
  };
  const float t = column(at.cell);
  return at.weight == 0 ? t : t + (column(at.cell + 1) - t) * at.weight;
}

/// a of the equation.
__device__ __forceinline__ float share(const OverlayParams& p, float t) {
  if (p.opacity == Opacity::constant) return p.alpha;
  if (p.opacity == Opacity::heat) return p.alpha * t;
  const float deviation = 2 * t - 1;
  return p.alpha * (deviation < 0 ? -deviation : deviation);
}

template <bool bilinear>
__global__ void __launch_bounds__(kThreads) overlay_kernel(const OverlayParams p) {
  auto& shared = device::block_shared<Colors>();
  const auto thread = static_cast<unsigned>(threadIdx.x);
  for (unsigned c = 0; c < 3; ++c) shared.entries[thread].values[c] = p.colors[3 * thread + c];
  device::block_sync();

  const bool words =
      ((reinterpret_cast<std::uint64_t>(p.picture) | static_cast<std::uint64_t>(p.picture_stride) |
        reinterpret_cast<std::uint64_t>(p.y) | static_cast<std::uint64_t>(p.y_stride)) &
       3U) == 0;
  const float scale = p.high > p.low ? 1.0F / (p.high - p.low) : 0.0F;
  const auto width = static_cast<std::int32_t>(p.horizontal.pixels);
  const unsigned groups_of_row = (static_cast<unsigned>(width) + kGroup - 1) / kGroup;
  const unsigned groups = groups_of_row * static_cast<unsigned>(p.vertical.pixels);
#pragma unroll 1
  for (int g = 0; g < kGroups; ++g) {
    const unsigned group = blockIdx.x * (kThreads * kGroups) + g * kThreads + thread;
    if (group >= groups) return;
    const unsigned row = group / groups_of_row;
    const auto first = static_cast<std::int32_t>(group % groups_of_row) * kGroup;
    const int count = width - first < kGroup ? width - first : kGroup;
    const std::uint8_t* picture = p.picture + row * p.picture_stride + 3 * first;
    std::uint8_t* y = p.y + row * p.y_stride + 3 * first;

    std::uint8_t bytes[3 * kGroup] = {};
    const bool whole = words && count == kGroup;
    if (whole) {
#pragma unroll
      for (int word = 0; word < 3; ++word) {
        const auto four = device::load_pack<4>(picture + 4 * word);
#pragma unroll
        for (int k = 0; k < 4; ++k) bytes[4 * word + k] = four.values[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 3 * kGroup; ++k)
        if (k < 3 * count) bytes[k] = picture[k];
    }

    const bool row_seen = is_seen(p.vertical, row);
    const Position vertical = position(bilinear, row, p.vertical);
    const float* upper = p.heat + vertical.cell * p.heat_stride;
    const float* lower = vertical.weight == 0 ? upper : upper + p.heat_stride;
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (k >= count) continue;
      if (!row_seen || !is_seen(p.horizontal, first + k)) {
#pragma unroll
        for (int c = 0; c < 3; ++c)
          bytes[3 * k + c] = static_cast<std::uint8_t>(
              static_cast<float>(bytes[3 * k + c]) * p.unseen_brightness + 0.5F);
        continue;
      }
      const Position at = position(bilinear, first + k, p.horizontal);
      const float t = sample(upper, lower, vertical.weight, at, p.low, scale);
      if (t != t) continue;
      const float entry = 255 * t;
      // The last entry has no next: there the step is 1, from the one before.
      const int number = entry < 255 ? static_cast<int>(entry) : 254;
      const float step = entry - static_cast<float>(number);
      const auto here = shared.entries[number];
      const auto next = shared.entries[number + 1];
      const float alpha = share(p, t);
#pragma unroll
      for (int c = 0; c < 3; ++c) {
        const auto from = static_cast<float>(here.values[c]);
        const float color = from + (static_cast<float>(next.values[c]) - from) * step;
        const auto value = static_cast<float>(bytes[3 * k + c]);
        bytes[3 * k + c] = static_cast<std::uint8_t>(value + (color - value) * alpha + 0.5F);
      }
    }

    if (whole) {
#pragma unroll
      for (int word = 0; word < 3; ++word) {
        device::Pack<std::uint8_t, 4> four;
#pragma unroll
        for (int k = 0; k < 4; ++k) four.values[k] = bytes[4 * word + k];
        device::store_pack(y + 4 * word, four);
      }
    } else {
#pragma unroll
      for (int k = 0; k < 3 * kGroup; ++k)
        if (k < 3 * count) y[k] = bytes[k];
    }
  }
}

}  // namespace hydrascope::kernels::overlay::cuda
