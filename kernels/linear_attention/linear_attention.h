// Linear attention for any feature map (Katharopoulos et al. 2020, arXiv 2006.16236, equations 4-6;
// Hedgehog: Zhang et al. 2024, arXiv 2402.04347), per head, in the three steps of a streamed block:
//   accumulate   S = sum over the tile of b_t v_t^T (F x d), z = sum of b_t, b_t = phi(k_t)
//   combine      S, z of all tiles
//   read_out     y_t = (a_t^T S) / m_t,  a_t = phi(q_t),  m_t = a_t . z by the normaliser's rule
// Exponential maps are stabilised from both sides, exactly, as the modules do
// (model/attention/linear/linear_attention.h): with W the exponents of the keys and U of the queries,
//   M_f = max_t W_tf    b_tf = exp(W_tf - M_f)    a_tf = exp(U_tf + M_f - max_f(U_tf + M_f))
// and tiles with different M are brought to one when combined.
//
// Tensors: q, k (n, H w), v, y (n, H d) in T, rows contiguous, strides and alignment free; any n
//   >= 0 and w, d, H >= 1 (fastest: w a multiple of 16, d of 64). Sums are float32: S (H, F, d),
//   then z (H, F), then M (H, F). State and scratch are 64-byte aligned and laid out by
//   layout.h. Nothing may overlap. Features never leave L1 and L2.
// FLOPs: 2 n F d per head for accumulate and for read_out each. Traffic of a tile of n rows: k and
//   v are read, S is read and written once for at most 128 tokens; q is read, the state once for
//   48 tokens, y is written. Bound by the product; exponential maps add a third of it at d = 64.
//   combine reads all sums once and is bound by the memory that holds them. bfloat16 multiplies by
//   AMX where the process may (amx/tile_strips-inl.h); accumulate transposes its features for that.
// Numerics: float32 sums over tokens in their order, tiles in theirs. In bfloat16 the features
//   of both sides and S are rounded once; z and a.z are sums of the rounded features, so that
//   weights sum to 1 but for the rounding of S. Exponents are float32; e^x is good to 2e-7
//   (float32) or 3e-6 (bfloat16, never below 2^-125). NaN in k poisons its head, in v its
//   column, in q its row of the head.
// Tolerance, of the sum of magnitudes that y consists of: 4e-6 (float32) or 2^-7 (bfloat16); sums 1e-5.
// Test: tests/kernels/linear_attention/linear_attention_test.cpp; twin:
//   linear_attention_reference.h beside it.
#pragma once

#include "kernels/token_weights.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention {

/// phi of a head's row u (w values) -> F features. A learned network in front of it is folded into
/// the projection that made u.
enum class Feature {
  elu_plus_one,  ///< u + 1 if u > 0, else exp(u);  F = w
  relu,          ///< max(u, 0);  F = w
  unit,          ///< u / max(|u|, eps);  F = w
  exp,           ///< exponents u;  F = w
  exp_pair,      ///< exponents [u, -u];  F = 2 w
  softmax_pair,  ///< exponents [log_softmax(u), log_softmax(-u)];  F = 2 w
  softmax_both,  ///< exponents log_softmax([2u, -2u]);  F = 2 w
  exp_centred    ///< exponents [u - max u, min u - u];  F = 2 w
};
/// Whether the map gives exponents.
constexpr bool is_exponential(Feature feature) { return feature >= Feature::exp; }
constexpr std::int64_t feature_dim(Feature feature, std::int64_t width) {
  return feature >= Feature::exp_pair ? 2 * width : width;
}

/// m of a query; exponential maps: a.z, which is at least 1, by every rule.
struct Normaliser {
  enum class Rule : std::int64_t {
    add_eps,       ///< a.z + eps: a query without any weight gives 0
    signed_clamp,  ///< a.z, moved away from 0 to +-eps: for signed features. No kernel has it.
    none           ///< 1
  };
  Rule rule = Rule::add_eps;
  float eps = 1e-6F;
};

/// A mechanism of linear attention.
struct Rule {
  Feature feature = Feature::elu_plus_one;
  Normaliser normaliser = {};
  float unit_eps = 1e-6F;  ///< eps of Feature::unit
  /// Whether y is divided by m.
  [[nodiscard]] constexpr bool divides() const {
    return is_exponential(feature) || normaliser.rule != Normaliser::Rule::none;
  }
};

struct Shape {
  std::int64_t num_heads;
  std::int64_t width;     ///< w, of q's and k's heads
  std::int64_t head_dim;  ///< d, of v's heads
  Rule rule;
  [[nodiscard]] constexpr std::int64_t features() const { return feature_dim(rule.feature, width); }
};

/// Sums of the heads of a tile, of some tiles or of an image.
template <class Float>
struct Sums {
  Float* s;        ///< (H, F, d)
  Float* z;        ///< (H, F)
  Float* maximum;  ///< (H, F): M
};

/// Floats of one tile's sums: S (H, F, d), z (H, F), M (H, F).
std::size_t sums_size(const Shape& shape);
/// Makes sums empty: S = z = 0, M = -infinity.
void clear(const Shape& shape, float* sums);

/// Bytes of working memory that `accumulate` and `read_out` need for tiles of at most `rows`
/// tokens.
template <class T>
std::size_t scratch_bytes(const Shape& shape, std::int64_t rows);
extern template std::size_t scratch_bytes<float>(const Shape&, std::int64_t);
extern template std::size_t scratch_bytes<BFloat16>(const Shape&, std::int64_t);

template <class T>
struct AccumulateParams {
  Shape shape;
  const T* k;  ///< (rows, H * w), rows `k_stride` apart
  std::int64_t k_stride;
  const T* v;  ///< (rows, H * d), rows `v_stride` apart
  std::int64_t v_stride;
  std::int64_t rows;
  TokenWeights weights;  ///< w of this tile's b, as floats (1 for normalised mechanisms)
  float* sums;           ///< sums_size floats, added to; a raised maximum rescales them
  void* scratch;         ///< 64-byte aligned
};
void accumulate(const AccumulateParams<float>& params);
void accumulate(const AccumulateParams<BFloat16>& params);

/// The state that `read_out` reads: S of each head as panels (kernels/linear/panel.h), z, M.
template <class T>
std::size_t state_bytes(const Shape& shape);
extern template std::size_t state_bytes<float>(const Shape&);
extern template std::size_t state_bytes<BFloat16>(const Shape&);

/// T: the state's type.
template <class T>
struct CombineParams {
  Shape shape;
  const float* sums;  ///< sums_size floats of each of `count` tiles, one after the other
  std::int64_t count;
  std::int64_t first_head;  ///< heads first_head .. first_head + heads: threads may share the work
  std::int64_t heads;
  void* state;
  /// If s is not null: receives the sums in float32, of heads counted from head 0. M is 0 for maps
  /// without exponents.
  Sums<float> combined = {};
};
/// Adds the tiles' sums in their order.
void combine(const CombineParams<float>& params);
void combine(const CombineParams<BFloat16>& params);

template <class T>
struct ReadOutParams {
  Shape shape;
  const T* q;  ///< (rows, H * w), rows `q_stride` apart
  std::int64_t q_stride;
  std::int64_t rows;
  const void* state;
  T* y;  ///< (rows, H * d), rows `y_stride` apart
  std::int64_t y_stride;
  void* scratch;
};
void read_out(const ReadOutParams<float>& params);
void read_out(const ReadOutParams<BFloat16>& params);

}  // namespace hydrascope::kernels::linear_attention
