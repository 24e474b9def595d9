// The common parts of the two kernels of tensor_core_backward.cuh, which has the equations: a warp's rows,
// the matrix they are multiplied by, and J^T from the gradients of features to the gradients of u.
#pragma once

#include "kernels/linear_attention/tensor_core_read_out.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// The parameters of both kernels; u is q or k, x is grad_y or v.
struct RowsParams {
  Rows<const BFloat16> u;
  Rows<const BFloat16> x;
  Rows<BFloat16> grad_u;
  std::int64_t rows;
  std::int64_t blocks;  ///< blocks per head of an image
  std::int64_t tiles_a_block;
  MapParams map;
  State state;   ///< the forward pass's: z, M
  State matrix;  ///< for queries S, for keys the sums over queries
};

/// A warp's rows of a tile.
template <Kind kind>
struct WarpRows {
  using Tile = BFloat16[kWarpRows * kWidth];
  /// Whether gradients of u may have to wait for sums over their row.
  static constexpr bool kWait = KindTraits<kind>::kMayNeedRow;
  Tile u;  ///< its gradient takes its place
  union {
    struct {
      Tile x;
      Tile next_u;  ///< every second tile's, on its way; unused if gradients wait
    } rows;
    float waiting[kGroups][8][device::kWarpSize];  ///< gradients of u, each lane's own
  };

  __device__ __forceinline__ BFloat16* u_of(std::int64_t tile) {
    return kWait || tile % 2 == 0 ? u : rows.next_u;
  }
};

template <Kind kind>
struct RowsShared {
  static constexpr int kFeatures = KindTraits<kind>::kFeatures;
  BFloat16 matrix[kFeatures * kWidth];
  WarpRows<kind> warps[kWarps];
  float offsets[kFeatures];  ///< offsets of the features' exponents, in powers of two
  float feature_values
      [kFeatures];  ///< factors of the matrix's rows; then for queries M or z, for keys dz
};

/// A warp's place: its 16 rows of each of the block's tiles.
struct Place {
  int head;
  std::int64_t image;
  std::int64_t image_head;
  std::int64_t first_row;

  __device__ explicit Place(const RowsParams& p)
      : head(static_cast<int>(blockIdx.y)),
        image(blockIdx.x / static_cast<unsigned>(p.blocks)),
        image_head(image * gridDim.y + head),
        first_row(blockIdx.x % static_cast<unsigned>(p.blocks) * p.tiles_a_block * kTileRows +
                  device::warp_index() * kWarpRows) {}
  [[nodiscard]] __device__ std::int64_t row(std::int64_t tile) const {
    return first_row + tile * kTileRows;
  }
};

/// Starts copies of a tile's u and x.
template <Kind kind>
__device__ __forceinline__ void start_tile(const RowsParams& p, const Place& place,
                                           WarpRows<kind>& own, std::int64_t tile) {
  const int lane = device::lane_index();
  start_rows<kWarpRows, 32, false>(own.u_of(tile), head_of(p.u, place.image, place.head),
                                   p.u.stride, place.row(tile), p.rows, lane);
  start_rows<kWarpRows, 32, false>(own.rows.x, head_of(p.x, place.image, place.head), p.x.stride,
                                   place.row(tile), p.rows, lane);
  device::copy_commit();
}

/// The rounded matrix and the numbers of its rows. A collective of the block.
template <Kind kind, bool queries>
__device__ __forceinline__ void load_matrix(const RowsParams& p, const Place& place,
                                            RowsShared<kind>& shared) {
  constexpr bool kExponential = KindTraits<kind>::kExponential;
  constexpr int kFeatures = KindTraits<kind>::kFeatures;
  HeldSums<kFeatures> held;
  held.load(p.matrix.data + place.image_head * kFeatures * kWidth);
  const int f = static_cast<int>(threadIdx.x);
  const std::int64_t feature = place.image_head * kFeatures + f;
  if (f < kFeatures) {
    shared.feature_values[f] = kExponential ? inverse_of_sum(*p.state.z(feature)) : 1.0F;
    float offset = 0;
    if constexpr (kExponential) {
      offset = *p.state.maximum(feature) * kLog2E;
      offset = queries ? offset + binary_logarithm(*p.state.z(feature)) : -offset;
    }
    shared.offsets[f] = offset;
  }
  device::block_sync();
  held.put(shared.matrix, shared.feature_values);
  device::block_sync();
  if (f < kFeatures) {
    if constexpr (!queries) {
      shared.feature_values[f] *= *p.matrix.z(feature);
    } else {
      shared.feature_values[f] =
          kExponential ? *p.state.maximum(feature) * kLog2E : *p.state.z(feature);
    }
  }
  device::block_sync();
}

/// x times the transposed rows of chunks `chunk` and `chunk` + 1 of the matrix.
__device__ __forceinline__ void multiply_by_rows(const std::uint32_t (&x)[kGroups][4],
                                                 const BFloat16* matrix, int chunk,
                                                 float (&products)[2][4]) {
#pragma unroll
  for (int over = 0; over < kGroups; ++over) {
    std::uint32_t right[4];
    load_right_transposed(right, matrix, kChunk * chunk, over);
    multiply_add_both<BFloat16>(products[0], products[1], x[over], right);
  }
}

/// J^T of one element without the row's part. `gradient`: of the element's exponent in `half`, or
/// of its feature. The first half sets `du`, the second adds to it. `sums` gets the addends of the
/// row's sums that through_row reads.
template <Kind kind>
__device__ __forceinline__ void pull_back(const MapParams& map, int half, float u, float gradient,
                                          const OfRow& row, float& du, float (&sums)[4]) {
  using Traits = KindTraits<kind>;
  if constexpr (Traits::kExponential) {
    const float slope = Traits::kShifted ? map.slope * kLn2 : 1.0F;
    if (half == 0) {
      du = slope * gradient;
    } else {
      du -= slope * gradient;
    }
    if constexpr (Traits::kShifted) {
      sums[half] += gradient;
      if (map.feature == Feature::exp_centred) {
        const float largest = half == 0 ? row.first : row.second;
        if ((half == 0 ? u : -u) * kLog2E == largest) sums[2 + half] += 1;
      }
    }
  } else if (map.feature == Feature::unit) {
    sums[0] = fmaf(u * row.first, gradient, sums[0]);
    du = gradient;
  } else {
    du = plain_gradient<Binary>(map.feature, u, gradient);
  }
}

/// The row's part of J^T, in maps that look at a whole row. `du`: the result of pull_back. `sums`:
/// sums of both halves' gradients over the row (`unit`: of feature times gradient).
template <Kind kind>
__device__ __forceinline__ float through_row(const MapParams& map, float du, float u,
                                             const OfRow& row, const float (&sums)[4], bool query) {
  if constexpr (kind == Kind::plain) {
    return through_norm(u, du, row, sums[0]);
  } else {
    // A part that is the same for all features of a query changes nothing.
    if (query && map.feature == Feature::softmax_both) return du;
    return du - through_shifts<Binary>(map.feature,
                                       exponent_in_twos<kind>(map, u, 0, 0.0F, row.first),
                                       exponent_in_twos<kind>(map, u, 1, 0.0F, row.second),
                                       {sums[0], sums[1], sums[2], sums[3]});
  }
}

/// Puts a warp's gradients of columns 16 columns ... in place of its u.
__device__ __forceinline__ void put_gradients(BFloat16* rows, int columns,
                                              const float (&du)[4][2]) {
#pragma unroll
  for (int word = 0; word < 4; ++word)
    put_word(rows, word % 2, 2 * columns + word / 2,
             device::round_pair(du[word][0], du[word][1], BFloat16{}));
}
/// The same, or puts them into the waiting place.
template <Kind kind>
__device__ __forceinline__ void keep_gradients(WarpRows<kind>& own, BFloat16* u_rows, int columns,
                                               const float (&du)[4][2]) {
  if constexpr (WarpRows<kind>::kWait) {
#pragma unroll
    for (int i = 0; i < 8; ++i) own.waiting[columns][i][device::lane_index()] = du[i / 2][i % 2];
  } else {
    device::warp_sync();  // all lanes have taken their words of u, whose place they get
    put_gradients(u_rows, columns, du);
  }
}
/// Puts the waiting gradients in place of u, through the sums over their row.
template <Kind kind>
__device__ __forceinline__ void release_gradients(const MapParams& map, WarpRows<kind>& own,
                                                  const OfRow (&terms)[2], float (&sums)[2][4],
                                                  bool query) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (float& sum : sums[row]) sum = device::warp_reduce<4>(sum, device::Sum());
  }
  const bool by_row = needs_row_of<kind>(map);
#pragma unroll 2
  for (int columns = 0; columns < kGroups; ++columns) {
    std::uint32_t words[4];
    load_left(words, own.u, 0, columns);
    float du[4][2];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      float u[2];
      unpack<BFloat16>(words[word], u);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        du[word][i] = own.waiting[columns][2 * word + i][device::lane_index()];
        if (by_row)
          du[word][i] =
              through_row<kind>(map, du[word][i], u[i], terms[word % 2], sums[word % 2], query);
      }
    }
    device::warp_sync();
    put_gradients(own.u, columns, du);
  }
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
